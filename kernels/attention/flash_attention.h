// Paged attention by FlashInfer's kernels: which layers they cover, and the launch.
//
// Layout of a layer's part of a KV block (HND): keys [kv_heads, block_size, head_dim], then values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backend/cuda/flash_plan.h"
#include "base/dtype.h"
#include "kernels/attention/flash_kernel.h"
#include "model/model_spec.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// The kernels for a layer, or nothing: head sizes are multiples of 16 bytes up to 256 columns;
/// activations bf16 or f16; keys and values of the same type, or f8_e4m3.
const FlashUnit* find_flash_unit(const model::AttentionSpec& spec, DType activation, DType kv,
                                 FlashSight sight = FlashSight::own_past);

/// Why the kernels do not cover a layer, in words; empty: they do.
std::string why_no_flash(const model::AttentionSpec& spec);

/// True when offsets stay below 2^32 elements where the kernels compute them in 32 bits.
/// `block_stride` in bytes.
bool flash_covers(const model::AttentionSpec& spec, const FlashLimits& limits, int64_t table_stride,
                  int64_t block_size, size_t block_stride, DType kv);

/// One layer's attention over a step, whichever kernels it takes. Device pointers; out [T, heads *
/// head_dim] contiguous.
struct PagedLayer {
  const FlashPlanner* plan = nullptr;  // of the layer's shape, with the step planned
  const std::byte* slab = nullptr;     // what the planner filled, on the device
  const void* q = nullptr;
  int64_t q_stride = 0;  // elements
  void* out = nullptr;
  const std::byte* kv = nullptr;  // block 0 of the layer
  size_t block_stride = 0;        // bytes
  int64_t block_size = 16;
  const int32_t* block_table = nullptr;  // [B, table_stride]
  const int32_t* query_start = nullptr;
  const int32_t* context_length = nullptr;
};

/// Arguments of FlashInfer's kernels beside the layer.
struct FlashCall {
  const FlashUnit* unit = nullptr;
  FlashMemory memory = FlashMemory::large;
  const FlashLimits* limits = nullptr;
  std::byte* workspace = nullptr;  // flash_workspace_bytes()
  int64_t sequences = 0;
  FlashSight sight = FlashSight::own_past;
  const int32_t* seen_end = nullptr;  // [T] of FlashSight::by_row
  float k_scale = 1, v_scale = 1;     // of stored keys and values: true value = stored * scale
};

/// Enqueues the launches of the plan.
void flash_attention(const PagedLayer& layer, const FlashCall& call,
                     const model::AttentionSpec& spec, cudaStream_t stream);

}  // namespace plimsoll::kernels
