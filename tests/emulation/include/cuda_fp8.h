// CUDA's e4m3 type for the emulator, bit for bit: nearest even, saturating at 448, NaN stays NaN.
#pragma once

#include <cmath>

#include "cuda_runtime.h"

struct __nv_fp8_e4m3 {
  uint8_t __x;
  __nv_fp8_e4m3() = default;
  explicit __nv_fp8_e4m3(float value) : __x(narrow(value)) {}
  explicit operator float() const { return widen(__x); }

 private:
  static uint8_t narrow(float value) {
    const auto sign = static_cast<uint8_t>(std::signbit(value) ? 0x80 : 0);
    const float size = std::fabs(value);
    if (std::isnan(value)) return static_cast<uint8_t>(sign | 0x7f);
    if (size >= 448.f) return static_cast<uint8_t>(sign | 0x7e);
    int exponent = 0;
    std::frexp(size, &exponent);
    // Three bits after the leading one, of numbers below 2^-6 multiples of 2^-9.
    const int unit = std::max(exponent - 4, -9);
    const float units = std::nearbyint(std::ldexp(size, -unit));
    const float rounded = std::ldexp(units, unit);
    if (rounded >= 448.f) return static_cast<uint8_t>(sign | 0x7e);
    if (rounded < 0.015625f) return static_cast<uint8_t>(sign | static_cast<int>(rounded * 512.f));
    std::frexp(rounded, &exponent);
    const int mantissa = static_cast<int>(std::ldexp(rounded, 4 - exponent)) - 8;
    return static_cast<uint8_t>(sign | ((exponent + 6) << 3) | mantissa);
  }
  static float widen(uint8_t bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    if ((bits & 0x7f) == 0x7f) return std::nanf("");
    const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                     : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
    return (bits & 0x80) != 0 ? -size : size;
  }
};
