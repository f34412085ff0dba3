// Adds a rank's slices and stores the sum: for kernels that add slices of one rank or of all.
#pragma once

#include "kernels/products/slices.h"
#include "kernels/runtime/store_as.h"
#include "model/slices.h"

namespace plimsoll::kernels {

/// Floats of a sum that are read at once.
inline constexpr int kSlicePack = 4;

/// Pack `i` of the sum of all slices, counted along rows of `stride`: (0 + 1) + (2 + 3).
__device__ inline Pack<float, kSlicePack> sum_of_slices(const SliceSums& op, int64_t i) {
  constexpr int kMost = 8;
  static_assert(kMost == model::kMostSlices);
  Pack<float, kSlicePack> sums[kMost];
  const int64_t step = op.rows * op.stride;
#pragma unroll
  for (int s = 0; s < kMost; ++s)
    if (s < op.slices) sums[s] = load_pack<float, kSlicePack>(op.sums + s * step + i * kSlicePack);
  if (op.bias.present()) {
    const int64_t column = i * kSlicePack % op.stride;
#pragma unroll
    for (int j = 0; j < kSlicePack; ++j)
      if (column + j < op.columns) sums[0].values[j] += op.bias.at(column + j);
  }
#pragma unroll
  for (int distance = 1; distance < kMost; distance *= 2) {
    if (distance >= op.slices) break;
#pragma unroll
    for (int to = 0; to + distance < kMost; to += 2 * distance)
#pragma unroll
      for (int j = 0; j < kSlicePack; ++j) sums[to].values[j] += sums[to + distance].values[j];
  }
  return sums[0];
}

/// Destination of a sum: row by row, rounded to the type of `out`. Columns past the last are
/// dropped.
struct SumRows {
  View out;
  int64_t stride = 0;  // of the sums
  bool whole = false;  // rows of `out` take packs of floats

  __device__ void operator()(int64_t i, const Pack<float, kSlicePack>& sums) const {
    const int64_t row = i * kSlicePack / stride, column = i * kSlicePack % stride;
    if (whole) {
      store_pack(row_at<float>(out, row) + column, sums);
      return;
    }
    for (int j = 0; j < kSlicePack; ++j)
      if (column + j < out.columns) store_as(out, row, column + j, sums.values[j]);
  }
};
SumRows sum_rows(const View& out, const SliceSums& sums);

}  // namespace plimsoll::kernels
