// Products of few rows with a matrix, bound by reading the matrix: decoding a sequence or a few.
// Also products that cuBLASLt does not support: mixed types, odd alignments.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "backend/cuda/footprint.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

/// Most rows for which a product reads the matrix once.
inline constexpr int64_t kSmallRows = 8;

/// How a block loads the matrix. All read ahead of the wait for the kernels before, and give equal
/// bits.
enum class Feed : uint8_t {
  registers,  // a piece of each row ahead
  ring,       // four pieces ahead, by way of shared memory
  bulk,       // as ring, by the copy engine; 32-bit types take ring
};
/// Feeds of the code that runs on the current device.
std::span<const Feed> feeds();

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
  Feed feed = Feed::registers;  // of operands of one type in whole 16 byte pieces; else registers
};
void small_linear(const SmallLinear& op, cudaStream_t stream);

/// small_linear of the norm of `in`, if any, and what is done with its sums (backend::FusedLinear).
/// Sums are float to the end: the norm and the product are not rounded.
struct FusedSmallLinear {
  View out;  // [T, n], or [T, n / 2] of gates and ups
  View in;
  View weight;  // of in's type, as `out`
  Vector bias{};
  bool normed = false;
  float epsilon = 0;
  float weight_offset = 0;      // of the norm
  const void* gains = nullptr;  // [k] of in's type, the norm's weight; none: 1
  backend::ProductEnd end = backend::ProductEnd::stored;
  model::Activation activation = model::Activation::none;  // of gates
  Feed feed = Feed::registers;
};
/// True when there is a kernel: at most kFusedRows rows of whole 16 byte pieces, one type.
bool covers_fused(const FusedSmallLinear& op);
void fused_small_linear(const FusedSmallLinear& op, cudaStream_t stream);
void load_fused_linear(DType type);

/// Loads the kernels of all row counts for types of `in` and `weight` ahead of their first launch.
void load_small_linear(DType in, DType weight);

}  // namespace plimsoll::kernels
