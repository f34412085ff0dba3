// The 8- and 4-bit floating types of quantised weights (OCP's FP8 and MX specifications).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plimsoll {

/// e4m3 without infinities: bias 7, NaN where all bits but the sign are set.
inline float e4m3_to_float(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const float sign = (code & 0x80) != 0 ? -1.f : 1.f;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

inline constexpr float kLargestE4m3 = 448;

/// The nearest e4m3, ties to even; what is too large becomes the largest, NaN stays NaN.
inline uint8_t float_to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  if (std::isnan(value)) return 0x7f;
  if (size >= kLargestE4m3) return sign | 0x7e;
  int exponent = 0;
  (void)std::frexp(size, &exponent);
  // A step of the value's binade; below 2^-6 the subnormals' of 2^-9.
  const int step = std::max(exponent - 4, -9);
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
  // Codes ascend with the values: 8 to 16 steps of binade e follow those of the one before.
  const int code = step == -9 ? steps : (step + 9) * 8 + steps;
  return static_cast<uint8_t>(sign | code);
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
