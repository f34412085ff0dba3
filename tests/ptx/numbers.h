// Numbers of 16 and 8 bits, and roundings that the host's instructions do not have.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/dtype.h"

namespace plimsoll::ptx {

inline float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}
/// To nearest even; NaN is the device's.
inline uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline uint16_t to_bf16_toward_zero(float value) {
  return std::isnan(value) ? uint16_t{0x7fff}
                           : static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
}

/// Rounded to odd, so that a second rounding to 16 bits gives what one rounding would.
float to_odd_float(double value);

template <bool kBf16>
float from_half(uint16_t bits) {
  return kBf16 ? from_bf16(bits) : f16_to_float(bits);
}
template <bool kBf16>
uint16_t to_half(double value) {
  const float once = to_odd_float(value);
  return kBf16 ? to_bf16(once) : float_to_f16(once);
}

float from_e4m3(uint8_t bits);
/// To nearest even, saturating.
uint8_t to_e4m3(float value);

inline float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.f, value) : value;
}
/// a * b + c, rounded down; a + b, rounded toward zero. Both once.
float multiply_add_down(float a, float b, float c);
float add_toward_zero(float a, float b);

}  // namespace plimsoll::ptx
