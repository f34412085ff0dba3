// Attention over the paged cache for every type and head size, on CUDA cores: used for float32 and
// for heads that FlashInfer's kernels do not cover, and as the reference of the others on the
// device.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/attention_items.h"
#include "kernels/runtime/device_batch.h"
#include "kernels/runtime/dispatch.h"

namespace plimsoll::kernels {

using namespace backend::cuda;  // plans of steps

/// out [T, H d] = causal attention of the q columns of qkv over the cache, head_dim <= 256. Items
/// and merges are on the device as plan_attention() made them; rows that no item names are left
/// unchanged.
struct PlainAttention {
  View out;
  View qkv;
  const model::AttentionSpec* spec = nullptr;
  const backend::KvLayer* cache = nullptr;
  Vector sinks{};                 // [H] or none
  const float* slopes = nullptr;  // [H] of the spec's ALiBi, or none
  View chosen{};                  // of ops::ChooseKeys, or none
  const AttentionItem* items = nullptr;
  int64_t item_count = 0;
  const MergeItem* merges = nullptr;
  int64_t merge_count = 0;
  float* partial = nullptr;  // [partial rows, H, d], then [partial rows, H] log-sum-exps
  int64_t partial_rows = 0;  // room
};
/// Bytes of `partial`.
size_t plain_partial_bytes(int64_t partial_rows, const model::AttentionSpec& spec);

void plain_attention(const PlainAttention& op, const DeviceBatch& batch, cudaStream_t stream);

}  // namespace plimsoll::kernels
