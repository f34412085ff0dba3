#include "backend/cpu/round_inputs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/dots/integer.h"
#include "base/float8.h"
#include "base/rounding.h"

namespace plimsoll::backend {
namespace {

using model::InputRounding;

constexpr float kLargestE2m1 = 6;
/// vLLM's lower bound of a float8 scale: 1 / (448 * 512).
constexpr float kLeastFp8Scale = 1 / (kLargestE4m3 * 512);

/// The nearest integer from -128 to 127, ties to even.
float to_byte(float value) {
  constexpr float kRounds = 0x1.8p23f;  // beyond it floats are integers
  const float low = value < -128.f ? -128.f : value;
  const float clamped = low > 127.f ? 127.f : low;
  return clamped + kRounds - kRounds;
}

float largest_of(const float* from, int64_t count, const RowMost& most) {
  return most.largest == nullptr ? largest_input(from, count) : *most.largest;
}

float int8_scale(const float* from, int64_t count, const InputRule& rule, const RowMost& most) {
  const bool stated = rule.rounding == InputRounding::int8_static;
  return stated ? rule.stated.scale : largest_of(from, count, most) / 127;
}

void to_int8(const float* from, int64_t count, float scale, float* to) {
  const float inverse = int8_inverse(scale);
  for (int64_t i = 0; i < count; ++i) to[i] = to_byte(from[i] * inverse) * scale;
}

/// The nearest integer, ties to even.
float nearest(float value) {
  constexpr float kRounds = 0x1.8p23f;
  return std::fabs(value) < 0x1p22f ? value + kRounds - kRounds : value;
}

/// `zero` is the code of 0.
void to_int8_from(const float* from, int64_t count, float scale, float zero, float* to) {
  const float inverse = 1 / scale;
  for (int64_t i = 0; i < count; ++i) {
    const float code = nearest(from[i] * inverse) + zero;
    to[i] = (std::clamp(code, -128.f, 127.f) - zero) * scale;
  }
}

/// A row of equal numbers stays as it is.
void to_int8_zeros(const float* from, int64_t count, const RowMost& most, float* to) {
  const auto [high, low] = most.largest == nullptr ? input_range(from, count)
                                                   : std::array{most.largest[0], most.largest[1]};
  const float scale = (high + low) / 255;
  if (!(scale > 0)) {
    std::copy_n(from, count, to);
    return;
  }
  to_int8_from(from, count, scale, nearest(low / scale - 128), to);
}

void to_fp8(const float* from, int64_t count, float scale, float* to) {
  const float inverse = 1 / scale;
  for (int64_t i = 0; i < count; ++i) to[i] = round_to_e4m3(from[i] * inverse) * scale;
}

/// The nearest e2m1, ties to even.
float round_to_e2m1(float value) {
  const float size = std::min(std::fabs(value), kLargestE2m1);
  const float step = size < 2 ? 0.5f : size < 4 ? 1.f : 2.f;
  return std::copysign(std::nearbyint(size / step) * step, value);
}

void to_nvfp4(const float* from, int64_t count, float global, float* to) {
  const float scale = round_to_e4m3(global * largest_input(from, count) / kLargestE2m1);
  const float step = scale / global;
  for (int64_t i = 0; i < count; ++i) to[i] = scale > 0 ? round_to_e2m1(from[i] / step) * step : 0;
}

/// A power of two for e2m1, or for float8.
void to_mx(bool fp4, const float* from, int64_t count, float* to) {
  const float most = largest_input(from, count);
  int exponent = 0;
  const float fraction = std::frexp(fp4 ? most : most / kLargestE4m3, &exponent);
  const float step = std::ldexp(1.f, model::mx_exponent(fp4, fraction, exponent));
  for (int64_t i = 0; i < count; ++i)
    to[i] = (fp4 ? round_to_e2m1(from[i] / step) : round_to_e4m3(from[i] / step)) * step;
}

/// f(number, first, count) for each group of a row, `lead` inputs of the first lying before it.
template <typename F>
void for_groups(int64_t count, int64_t group, int64_t lead, const F& f) {
  for (int64_t i = 0, number = 0; i < count; ++number) {
    const int64_t end = std::min(count, (number + 1) * group - lead);
    f(number, i, end - i);
    i = end;
  }
}

/// Float8 by the largest of some inputs.
void to_fp8_by(float most, const float* from, int64_t count, float* to) {
  to_fp8(from, count, std::max(most / kLargestE4m3, kLeastFp8Scale), to);
}

}  // namespace

float largest_input(const float* from, int64_t count) {
  constexpr int64_t kLanes = 8;  // which the compiler keeps in vectors
  std::array<float, kLanes> most{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t j = 0; j < kLanes; ++j) {
      const float size = std::fabs(from[i + j]);
      most[j] = size > most[j] ? size : most[j];
    }
  for (; i < count; ++i) most[0] = std::max(most[0], std::fabs(from[i]));
  return *std::ranges::max_element(most);
}

std::array<float, 2> input_range(const float* from, int64_t count) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::array range{kNone, kNone};
  for (int64_t i = 0; i < count; ++i) {
    range[0] = std::max(range[0], from[i]);
    range[1] = std::max(range[1], -from[i]);
  }
  return range;
}

void largest_inputs(const float* from, int64_t count, int64_t group, int64_t lead, float* to) {
  for_groups(count, group, lead, [&](int64_t number, int64_t first, int64_t n) {
    to[number] = largest_input(from + first, n);
  });
}

void round_inputs(const float* from, int64_t count, const InputRule& rule, const RowMost& most,
                  float* to) {
  const int64_t group = model::rounded_together(rule.rounding);
  switch (rule.rounding) {
    case InputRounding::none:
      std::copy_n(from, count, to);
      return;
    case InputRounding::int8_token:
    case InputRounding::int8_static:
      return to_int8(from, count, int8_scale(from, count, rule, most), to);
    case InputRounding::int8_zeros:
      return to_int8_zeros(from, count, most, to);
    case InputRounding::int8_static_zeros:
      return to_int8_from(from, count, rule.stated.scale, rule.stated.zero, to);
    case InputRounding::int8_group32:
    case InputRounding::int8_group256:
      return for_groups(count, group, most.lead, [&](int64_t number, int64_t first, int64_t n) {
        to_int8(from + first, n, largest_of(from + first, n, most.of_group(number)) / 127,
                to + first);
      });
    case InputRounding::fp8_token:
      return to_fp8_by(largest_of(from, count, most), from, count, to);
    case InputRounding::fp8_bounded:
      return to_fp8_by(std::min(largest_of(from, count, most), rule.stated.scale), from, count, to);
    case InputRounding::fp8_group:
      return for_groups(count, group, most.lead, [&](int64_t number, int64_t first, int64_t n) {
        to_fp8_by(largest_of(from + first, n, most.of_group(number)), from + first, n, to + first);
      });
    case InputRounding::fp8_static:
      return to_fp8(from, count, rule.stated.scale, to);
    case InputRounding::nvfp4_group:
      return for_groups(count, group, 0, [&](int64_t, int64_t first, int64_t n) {
        to_nvfp4(from + first, n, rule.stated.scale, to + first);
      });
    case InputRounding::mxfp4_group:
    case InputRounding::mxfp8_group:
      return for_groups(count, group, 0, [&](int64_t, int64_t first, int64_t n) {
        to_mx(rule.rounding == InputRounding::mxfp4_group, from + first, n, to + first);
      });
  }
}

IntegerRows::IntegerRows(std::byte* at, int64_t row_count, int64_t columns, int64_t slice_count)
    : codes(reinterpret_cast<int8_t*>(at)),
      rows(row_count),
      stride(round_up(columns, kIntegerBlock)),
      slices(slice_count),
      scales(reinterpret_cast<float*>(at + rows * stride)),
      sums(reinterpret_cast<int32_t*>(scales + rows)) {}

void store_integers(const float* from, int64_t columns, const InputRule& rule, const RowMost& most,
                    IntegerRows& to, int64_t row) {
  const float scale = int8_scale(from, columns, rule, most);
  const float inverse = int8_inverse(scale);
  int8_t* const codes = to.codes + row * to.stride;
  const int64_t width = columns / to.slices;
  for (int64_t slice = 0; slice < to.slices; ++slice) {
    int32_t sum = 0;
    for (int64_t i = slice * width; i < (slice + 1) * width; ++i) {
      const auto code = static_cast<int32_t>(to_byte(from[i] * inverse));
      codes[i] = static_cast<int8_t>(code);
      sum += code;
    }
    to.sums[slice * to.rows + row] = sum;
  }
  std::fill(codes + columns, codes + to.stride, int8_t{0});
  to.scales[row] = scale;
}

}  // namespace plimsoll::backend
