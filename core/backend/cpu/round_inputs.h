// Inputs of products rounded as a quantised checkpoint's format asks for: to int8, float8 or e2m1
// and back, so that what is multiplied are the numbers that an 8- or 4-bit kernel would take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "model/packing.h"

namespace plimsoll::backend {

struct InputRule {
  model::InputRounding rounding = model::InputRounding::none;
  model::InputScale stated{};  // the checkpoint's
  /// Rows go into the product as integers (IntegerRows).
  bool integers = false;
  /// Rows go into the product as fixed-point numbers (FixedRow) of so many bytes, for codes of so
  /// many bits in groups of so many, the first of which has so many before them; 0: they don't.
  int planes = 0;
  int64_t bits = 0, group = 0, lead = 0;

  bool operator==(const InputRule&) const = default;
  explicit operator bool() const { return rounding != model::InputRounding::none; }
};

/// What a rank knows of the inputs of a row that others have, where it has a share of them.
struct RowMost {
  /// The largest of the whole row (model::rounds_by_row; of int8_zeros its range), or of each group
  /// that it has inputs of; null: all that are rounded together are here.
  const float* largest = nullptr;
  int64_t lead = 0;  // inputs of the first group that lie before the share
};

/// The largest of a row, without its sign.
float largest_input(const float* from, int64_t count);

/// Its largest number, and its least one negated.
std::array<float, 2> input_range(const float* from, int64_t count);

/// The largest of each of its groups of `group` inputs, `lead` of the first lying before the row.
void largest_inputs(const float* from, int64_t count, int64_t group, int64_t lead, float* to);

/// A row of `count` floats, rounded; scales and zero points as vLLM's kernels have them (amax /
/// 127, amax / 448).
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

/// Row `row` of `columns` floats, rounded as round_inputs rounds it.
void store_integers(const float* from, int64_t columns, const InputRule& rule, const RowMost& most,
                    IntegerRows& to, int64_t row);

}  // namespace plimsoll::backend
