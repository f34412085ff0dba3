// Rounds inputs of products as a quantized checkpoint's format asks: to int8, float8 or e2m1 and
// back, so that the numbers multiplied are those of an 8- or 4-bit kernel.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "model/packing.h"

namespace plimsoll::backend {

struct InputRule {
  model::InputRounding rounding = model::InputRounding::none;
  model::InputScale stated{};  // the checkpoint's
  /// Whether rows go into the product as integers (IntegerRows).
  bool integers = false;
  /// Bytes of the fixed-point numbers (FixedRow) as which rows go into the product, for codes of
  /// `bits` bits in groups, the first of which has `lead` inputs before them; 0: they do not.
  int planes = 0;
  int64_t bits = 0, group = 0, lead = 0;
  int32_t zero = 0;  // of the codes

  bool operator==(const InputRule&) const = default;
  explicit operator bool() const { return rounding != model::InputRounding::none; }
};

/// A rank's knowledge of the inputs of a row that other ranks have, where it has a share of them.
struct RowMost {
  /// The largest of the whole row (model::rounds_by_row; of int8_zeros its range), or of each group
  /// that it has inputs of; null: all inputs that are rounded together are here.
  const float* largest = nullptr;
  int64_t lead = 0;  // inputs of the first group that lie before the share

  [[nodiscard]] RowMost of_group(int64_t number) const {
    return {largest == nullptr ? nullptr : largest + number};
  }
};

/// What inputs are multiplied by to become codes of int8; 0, so that all become 0, where the scale
/// is NaN or so small that it has no inverse.
[[gnu::always_inline]] constexpr float int8_inverse(float scale) {
  return scale >= std::numeric_limits<float>::min() ? 1 / scale : 0;
}

/// The largest absolute value of a row.
float largest_input(const float* from, int64_t count);

/// The largest number of a row, and its least one negated.
std::array<float, 2> input_range(const float* from, int64_t count);

/// The largest absolute value of each group of `group` inputs, `lead` inputs of the first group
/// lying before the row.
void largest_inputs(const float* from, int64_t count, int64_t group, int64_t lead, float* to);

/// Rounds a row of `count` floats; scales and zero points as in vLLM's kernels (amax / 127, amax /
/// 448).
void round_inputs(const float* from, int64_t count, const InputRule& rule, const RowMost& most,
                  float* to);

/// Rows as int8 for integer.h: [rows][stride], then their scales, then the sums of their slices,
/// [slices][rows].
struct IntegerRows {
  int8_t* codes = nullptr;
  int64_t rows = 0, stride = 0, slices = 1;
  float* scales = nullptr;
  int32_t* sums = nullptr;

  IntegerRows(std::byte* at, int64_t row_count, int64_t columns, int64_t slice_count);
};

/// Stores row `row` of `columns` floats, rounded as by round_inputs.
void store_integers(const float* from, int64_t columns, const InputRule& rule, const RowMost& most,
                    IntegerRows& to, int64_t row);

}  // namespace plimsoll::backend
