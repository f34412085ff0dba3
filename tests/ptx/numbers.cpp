#include "ptx/numbers.h"

#include <algorithm>
#include <limits>

namespace plimsoll::ptx {

float to_odd_float(double value) {
  const auto nearest = static_cast<float>(value);
  if (std::isnan(nearest) || std::isinf(nearest) || static_cast<double>(nearest) == value)
    return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

float from_e4m3(uint8_t bits) {
  const int exponent = bits >> 3 & 15, digits = bits & 7;
  float size = 0;
  if ((bits & 0x7f) == 0x7f) {
    size = std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    size = std::ldexp(static_cast<float>(digits), -9);
  } else {
    size = std::ldexp(static_cast<float>(8 + digits), exponent - 10);
  }
  return (bits & 0x80) != 0 ? -size : size;
}

uint8_t to_e4m3(float value) {
  constexpr float kMost = 448.f;
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float size = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7f;
  if (size >= kMost) return sign | 0x7e;
  int exponent = 0;
  (void)std::frexp(size, &exponent);
  const int unit = std::max(exponent - 4, -9);
  const float rounded = std::ldexp(std::nearbyint(std::ldexp(size, -unit)), unit);
  if (rounded >= kMost) return sign | 0x7e;
  if (rounded < 0x1p-6f) return static_cast<uint8_t>(sign | static_cast<int>(rounded * 512.f));
  (void)std::frexp(rounded, &exponent);
  const int digits = static_cast<int>(std::ldexp(rounded, 4 - exponent)) - 8;
  return static_cast<uint8_t>(sign | (exponent + 6) << 3 | digits);
}

namespace {

/// A sum of two doubles, and what its rounding left out.
struct ExactSum {
  double sum;
  double rest;
};
ExactSum exact_sum(double a, double b) {
  const double sum = a + b;
  const double of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

float round_down(ExactSum exact) {
  const auto nearest = static_cast<float>(exact.sum);
  const double distance = static_cast<double>(nearest) - exact.sum;
  const bool above = distance > 0 || (distance == 0 && exact.rest < 0);
  return above ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}

}  // namespace

float multiply_add_down(float a, float b, float c) {
  // The product of two floats is exact in double.
  const ExactSum exact =
      exact_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c));
  return std::isfinite(exact.sum) ? round_down(exact) : static_cast<float>(exact.sum);
}

float add_toward_zero(float a, float b) {
  const ExactSum exact = exact_sum(static_cast<double>(a), static_cast<double>(b));
  if (!std::isfinite(exact.sum)) return static_cast<float>(exact.sum);
  if (exact.sum >= 0) return round_down(exact);
  return -round_down({-exact.sum, -exact.rest});
}

}  // namespace plimsoll::ptx
