// Caches of DeepSeek-V4: entries that stand for several tokens, the window before them, and the
// windows of partial sums from which entries are made.
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {
namespace {

KvLayer latent_page(KvKind kind, Amount token_bytes, int64_t compression) {
  constexpr int64_t kAlignment = 576;  // pages of the fp8 cache
  KvLayer cache;
  cache.kind = kind;
  cache.token_bytes = token_bytes;
  cache.compression = compression;
  cache.alignment = kAlignment;
  return cache;
}

/// Sums in float32 of the tokens that are not yet compressed.
KvLayer partial_sums(int64_t ratio, int64_t head_size) {
  const int64_t overlap = ratio == model::kOverlapped ? 2 : 1;
  KvLayer state =
      latent_page(KvKind::sliding_latent, Amount{2} * overlap * head_size * kFloat32, 1);
  state.window = overlap * ratio;
  state.fixed_block = ratio == model::kOverlapped ? 4 : 8;
  return state;
}

}  // namespace

void add_compressed_caches(const model::AttentionSpec& attention, Builder& build) {
  // 448 fp8 elements, 64 16-bit ones with positions, 8 bytes of scales.
  constexpr int64_t kEntry = 584, kBlock = 64, kScaledGroup = 128;
  const int64_t ratio = attention.compression, index = attention.indexer.head_dim;
  std::vector<KvLayer>& caches = build.shape.kv_layers;
  if (attention.indexer.chooses()) {  // fp8 keys with a float32 scale
    caches.push_back(latent_page(KvKind::latent, index + index / kScaledGroup * kFloat32, ratio));
    caches.push_back(partial_sums(ratio, index));
  }
  KvLayer window = latent_page(KvKind::sliding_latent, kEntry, 1);
  window.window = attention.window;
  window.fixed_block = kBlock;
  caches.push_back(window);
  if (ratio > 1) {
    caches.push_back(latent_page(KvKind::latent, kEntry, ratio));
    caches.push_back(partial_sums(ratio, attention.head_dim));
  }
  build.shape.kernel = AttentionKernel::deepseek_v4;
  build.shape.packs_pages = true;
}

}  // namespace plimsoll::vllm
