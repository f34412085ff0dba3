// Prefill on Hopper: which kernels a layer has, and the launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/flash_plan.h"
#include "kernels/attention/hopper_kernel.h"

namespace plimsoll::kernels {

/// That for a size of heads and a type of activations and cache, or nothing.
const HopperUnit* find_hopper_unit(int64_t head_dim, DType type);

/// One layer's attention over what the step has for Hopper. Device pointers; out [T, heads *
/// head_dim] contiguous; layout of a layer's part of a KV block as in flash_attention.h.
struct HopperCall {
  const HopperUnit* unit = nullptr;
  const FlashPlanner* plan = nullptr;  // of the layer's shape, with the step planned
  const std::byte* slab = nullptr;     // what the planner filled, on the device
  const void* q = nullptr;
  int64_t q_stride = 0;  // elements
  int64_t rows = 0;      // T
  void* out = nullptr;
  const std::byte* kv = nullptr;  // block 0 of the layer
  size_t block_stride = 0;        // bytes
  int64_t block_size = 16;
  const int32_t* block_table = nullptr;  // [B, table_stride]
  int64_t table_stride = 0;
  const int32_t* query_start = nullptr;
  const int32_t* context_length = nullptr;
};

/// Enqueues the launch, if the step has works for it.
void hopper_attention(const HopperCall& call, const model::AttentionSpec& spec,
                      cudaStream_t stream);

}  // namespace plimsoll::kernels
