// Caches of attention layers.
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

constexpr model::VllmVersion kUnevenTypes{0, 32, 0};
constexpr model::VllmVersion kStrides{0, 31, 0};  // of packed blocks

}  // namespace

KvLayer attention_cache(const Builder& build, int64_t kv_heads, int64_t key_size,
                        int64_t value_size, int64_t window, KvKind kind) {
  KvLayer cache;
  cache.kind = kind;
  cache.window = window;
  // MiMo V2's class, whose values are smaller than its keys, told its layers no type of cache.
  const bool whole = key_size != value_size && build.options.version < kUnevenTypes;
  const int64_t element = whole ? build.options.element : build.kv_element();
  cache.token_bytes = Amount{kv_heads} * (key_size + value_size) * element;
  return cache;
}

void add_latent_cache(Builder& build, const model::LatentSpec& latent, bool sparse) {
  ModelShape& shape = build.shape;
  const ShapeOptions& options = build.options;
  const LatentBackend backend =
      latent_backend({options.version, options.card, options.cache, latent.rotated > 0}, sparse);
  if (sparse || shape.kernel != AttentionKernel::sparse_mla) {
    shape.kernel = sparse ? AttentionKernel::sparse_mla : AttentionKernel::mla;
    shape.latent = backend;
  }
  KvLayer cache;
  cache.kind = KvKind::latent;
  const Amount plain =
      Amount{latent.kv_rank + latent.rotated} * (backend.packed ? 1 : build.kv_element());
  cache.token_bytes = backend.packed ? Amount{kPackedLatent} : plain;
  if (options.version >= kStrides) cache.stride = cache.token_bytes * backend.rows;
  // A hybrid's blocks go by the plain layout where latents have no positions.
  shape.attention_token_bytes = latent.rotated > 0 ? cache.token_bytes : plain;
  shape.kv_layers.push_back(cache);
}

KvLayer index_cache(Amount key_bytes, int64_t pool) {
  KvLayer cache;
  cache.kind = KvKind::latent;
  cache.token_bytes = key_bytes;
  cache.compression = pool;
  cache.kernel = "indexer";
  return cache;
}

}  // namespace plimsoll::vllm
