// Sums of a product that ranks split by its inputs, made equal for any number of ranks
// (model/slices.h): a float32 matrix for each slice of the inputs, which one tree of pairs adds.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/cuda/slices.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// A rank's slices of a sum [rows, columns]: matrix s at sums + s * rows * stride. The bias is
/// added to the first slice.
struct SliceSums {
  const float* sums = nullptr;  // aligned to 16 bytes
  int64_t slices = 1;           // a power of two, at most model::kMostSlices
  int64_t rows = 0, columns = 0;
  int64_t stride = 0;  // floats from row to row, of whole packs
  Vector bias{};       // [columns] or none
};

/// out = the sum of all slices, for one rank alone.
void sum_slices(const View& out, const SliceSums& sums, cudaStream_t stream);

}  // namespace plimsoll::kernels
