// CUDA's half type for the emulator, bit for bit.
#pragma once

#include "base/dtype.h"
#include "cuda_runtime.h"

struct __half {
  uint16_t bits;
  __half() = default;
  explicit __half(float value) : bits(plimsoll::float_to_f16(value)) {}
  explicit operator float() const { return plimsoll::f16_to_float(bits); }
};

inline __half __float2half_rn(float value) {
  return __half(value);
}
inline float __half2float(__half value) {
  return static_cast<float>(value);
}
