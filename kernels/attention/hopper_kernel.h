// The compiled attention kernels for prefill on Hopper as a table. Plain C++; the kernels are in
// hopper_kernel.cuh, one translation unit per row of the table.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "backend/cuda/hopper_plan.h"
#include "base/dtype.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// Device pointers and numbers of one launch. Strides in elements.
struct HopperArguments {
  const void* q = nullptr;  // [T, heads, head_dim] in rows of q_stride
  int64_t q_stride = 0;
  int64_t rows = 0;         // T
  void* out = nullptr;      // [T, heads, head_dim]
  const void* k = nullptr;  // block 0 of the layer: [kv_heads, block_size, head_dim]
  const void* v = nullptr;
  int64_t block_stride = 0;
  int64_t block_size = 16;
  const int32_t* block_table = nullptr;  // [B, table_stride]
  int64_t heads = 0, kv_heads = 0;
  int64_t window_left = -1;  // positions before a row's own that it sees; -1: all
  float scale = 1;           // of q.k
  HopperWorks works{};
};

/// Kernels of one type and size, with a window and without.
struct HopperUnit {
  DType type = DType::bf16;  // of activations and the cache
  int64_t head_dim = 0;
  /// Loads the kernels and raises their limit of shared memory. Once per device, before the first
  /// launch.
  cudaError_t (*prepare)() = nullptr;
  /// `blocks` thread blocks, one for each multiprocessor that has works. Throws Error when the
  /// runtime or the driver refuses.
  void (*launch)(const HopperArguments& arguments, int64_t blocks, cudaStream_t stream) = nullptr;
};

/// All units of this build; none without FlashInfer, or without code for 9.0.
std::span<const HopperUnit> hopper_units();

}  // namespace plimsoll::kernels
