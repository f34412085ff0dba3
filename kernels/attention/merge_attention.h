// Merges partial results of attention, for sequences whose keys were cut in chunks.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/dtype.h"

namespace plimsoll::kernels {

/// Row merge_row[i] of `out` [T, heads, head_dim] becomes the mean of the partial rows
/// [merge_start[i], merge_start[i + 1]), weighted by 2^lse. All device pointers.
struct AttentionMerge {
  const float* partial = nullptr;  // [rows, heads, head_dim]
  const float* lse = nullptr;      // [rows, heads], base 2
  const int32_t* merge_row = nullptr;
  const int32_t* merge_start = nullptr;
  void* out = nullptr;
  DType dtype = DType::bf16;  // of out: bf16 or f16
  int64_t rows = 0;           // merged rows
  int64_t heads = 0;
  int64_t head_dim = 0;  // a multiple of 2, up to 256
};

/// Partial results are summed by one warp for each head, or by four: the order of sums differs.
enum class MergeWarps : uint8_t { one = 1, four = 4 };

/// Loads the kernel for results of a type ahead of its first launch.
void load_merge_attention(DType dtype);

/// Throws Error when the runtime refuses.
void merge_attention(const AttentionMerge& merge, MergeWarps warps, cudaStream_t stream);

}  // namespace plimsoll::kernels
