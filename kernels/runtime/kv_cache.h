// Layout of a KV block in the CUDA backend: for each layer K, then V, each [kv_heads][block_size]
// [head_dim] (heads outermost, as FlashInfer's HND), without scales.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"

namespace plimsoll::kernels {

/// The cache of one layer for kernels that read elements of T.
template <typename T>
struct KvCache {
  std::byte* layer;     // of block 0
  size_t block_stride;  // bytes
  int32_t block_size;   // tokens
  int32_t kv_heads;
  int32_t head_dim;
  const int32_t* table;  // [B, table_stride] block numbers
  int64_t table_stride;

  /// Key of a position, [head_dim]; the value lies `value_offset()` elements after it.
  __device__ T* key(int64_t sequence, int32_t head, int32_t position) const {
    const int32_t block = table[sequence * table_stride + position / block_size];
    return reinterpret_cast<T*>(layer + static_cast<size_t>(block) * block_stride) +
           (int64_t{head} * block_size + position % block_size) * head_dim;
  }
  __device__ int64_t value_offset() const { return int64_t{kv_heads} * block_size * head_dim; }
};

template <typename T>
KvCache<T> kv_cache_of(const backend::KvLayer& cache, const model::AttentionSpec& spec,
                       const int32_t* table, int64_t table_stride) {
  return {.layer = cache.pool + cache.layer_offset,
          .block_stride = cache.block_stride,
          .block_size = static_cast<int32_t>(cache.block_size),
          .kv_heads = static_cast<int32_t>(spec.kv_heads),
          .head_dim = static_cast<int32_t>(spec.head_dim),
          .table = table,
          .table_stride = table_stride};
}

}  // namespace plimsoll::kernels
