// Slices of rows that are independent of each other: slicing bounds scratch and changes no bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/rounding.h"
#include "memory/arena.h"

namespace plimsoll::engine {

/// Most rows that an MLP takes at a time.
inline constexpr int64_t kSliceRows = 2048;

/// Calls f(first, count) for slices of the rows, as even as possible. Where `scratch` only counts,
/// the slices have the largest size that fewer rows could have.
template <typename F>
void for_row_slices(int64_t rows, const memory::Arena& scratch, const F& f) {
  const int64_t slices = std::max<int64_t>(1, divide_up(rows, kSliceRows));
  const int64_t width = scratch.is_counting() ? kSliceRows : divide_up(rows, slices);
  for (int64_t first = 0; first < rows; first += width) f(first, std::min(width, rows - first));
}

}  // namespace plimsoll::engine
