// Inputs of products rounded as a quantised checkpoint's format asks for: to int8, float8 or e2m1
// and back, so that what is multiplied are the numbers that an 8- or 4-bit kernel would take.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/packing.h"

namespace plimsoll::backend {

struct InputRule {
  model::InputRounding rounding = model::InputRounding::none;
  /// The checkpoint's: int8 and fp8 are multiples of it, nvfp4's scales its inverse's.
  float scale = 0;
  /// Rows go into the product as integers (IntegerRows).
  bool integers = false;

  bool operator==(const InputRule&) const = default;
  explicit operator bool() const { return rounding != model::InputRounding::none; }
};

/// The largest of a row, without its sign.
float largest_input(const float* from, int64_t count);

/// A row of `count` floats, rounded; scales as vLLM's kernels have them (amax / 127, amax / 448).
/// `most` is the largest of its whole row, by which model::rounds_by_row() goes.
void round_inputs(const float* from, int64_t count, const InputRule& rule, float most, float* to);

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
void store_integers(const float* from, int64_t columns, const InputRule& rule, float most,
                    IntegerRows& to, int64_t row);

}  // namespace plimsoll::backend
