// Products of few rows with a matrix, bound by reading the matrix: decoding a sequence or a few.
// Also the products that cuBLASLt has nothing for: mixed types, odd alignments.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// Rows whose product reads the matrix once.
inline constexpr int64_t kSmallRows = 8;

/// out [T, n] = activation(in [T, k] * weight [n, k]^T + bias), summed in float in an order that
/// depends on k alone: a row has the same bits in any batch. weight is of in's type or f32, out of
/// in's type or f32.
///
/// Blocks read their first part of the matrix before they wait for the kernel before them: no
/// kernel of the same stream that is still running may write it.
struct SmallLinear {
  View out;
  View in;
  View weight;    // [n, k]
  Vector bias{};  // [n] or none
  model::Activation activation = model::Activation::none;
};
void small_linear(const SmallLinear& op, cudaStream_t stream);

/// Loads the kernels of all row counts for types of `in` and `weight` ahead of their first launch.
void load_small_linear(DType in, DType weight);

}  // namespace plimsoll::kernels
