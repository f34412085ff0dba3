// The 8- and 4-bit floating types of quantized weights (OCP's FP8 and MX specifications).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plimsoll {

inline constexpr float kLargestE4m3 = 448;
/// The smallest normal e4m3; below it numbers are 2^-9 apart.
inline constexpr float kLeastNormalE4m3 = 0x1p-6f;

/// e4m3 without infinities: bias 7, NaN where all bits but the sign are set.
inline float e4m3_to_float(uint8_t code) {
  const uint32_t size = code & 0x7fu;
  if (size == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float value = size < 8 ? static_cast<float>(size) * 0x1p-9f
                               : std::bit_cast<float>((size << 20) + (120u << 23));
  return (code & 0x80) != 0 ? -value : value;
}

/// The nearest e4m3, ties to even; too large values become the largest, NaN stays NaN.
inline uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return sign | 0x7f;
  if (std::bit_cast<float>(size) < kLeastNormalE4m3) {
    // Adding 2^23 rounds to an integer.
    const float steps = std::bit_cast<float>(size) * 0x1p9f + 0x1p23f;
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(steps) & 15);
  }
  const uint32_t rounded = size + 0x7ffffu + (size >> 20 & 1);
  return sign | static_cast<uint8_t>(std::min((rounded - (120u << 23)) >> 20, 0x7eu));
}

/// The value rounded to e4m3, as a float.
inline float round_to_e4m3(float value) {
  return e4m3_to_float(float_to_e4m3(value));
}

/// 2^(code - 127); 255 is NaN.
inline float e8m0_to_float(uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.f, code - 127);
}

/// e2m1 by its 4 bits, the highest of which is the sign.
inline constexpr std::array<float, 16> kE2m1 = {0,    0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace plimsoll
