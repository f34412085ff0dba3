// CUDA's bfloat16 type for the emulator, bit for bit.
#pragma once

#include "base/dtype.h"
#include "cuda_runtime.h"

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) : bits(plimsoll::float_to_bf16(value)) {}
  explicit operator float() const { return plimsoll::bf16_to_float(bits); }
};

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __nv_bfloat16(value);
}
inline float __bfloat162float(__nv_bfloat16 value) {
  return static_cast<float>(value);
}
