// The compiled kernels of decode attention by XQA as a table. Plain C++; the kernels are in
// xqa_kernel.cuh, one translation unit per row of the table.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cuda/xqa_plan.h"
#include "base/dtype.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// Device pointers and numbers of one launch: one row of each sequence, which sees all that the
/// cache has of it. A sequence of context 0 gets zeros.
struct XqaArguments {
  const void* q = nullptr;  // [B, heads, head_dim] in rows of (heads + 2 kv_heads) * head_dim
  void* out = nullptr;      // [B, heads, head_dim]
  const void* k = nullptr;  // block 0 of the layer: [kv_heads, 16, head_dim]
  const void* v = nullptr;
  int64_t block_stride = 0;                 // rows of head_dim elements
  const int32_t* block_table = nullptr;     // [B, table_stride]
  const int32_t* context_length = nullptr;  // [B]
  int64_t table_stride = 0;
  int64_t sequences = 0;  // B
  int64_t heads = 0, kv_heads = 0;
  int64_t parts = 1;               // of each sequence (xqa_parts)
  float scale = 1;                 // of q.k
  float k_scale = 1, v_scale = 1;  // of stored keys and values, which float8 has
  uint32_t* counters = nullptr;    // [B, kv_heads] zeros, and zeros again behind the launch
  std::byte* scratch = nullptr;    // xqa_part_bytes() of each part, KV head and sequence
};

/// A kernel of one combination of types and sizes, for all groups of up to kMostXqaGroup heads.
struct XqaUnit {
  DType activation = DType::bf16;
  DType kv = DType::bf16;
  int64_t head_dim = 0;
  /// Loads the kernel and raises its limit of shared memory; false where the device has too little.
  /// Once per device, before the first launch.
  bool (*prepare)() = nullptr;
  /// Throws Error when the runtime refuses.
  void (*launch)(const XqaArguments& arguments, cudaStream_t stream) = nullptr;
};

/// All that this build has; none without FlashInfer.
std::span<const XqaUnit> xqa_units();

}  // namespace plimsoll::kernels
