// Attention of a GGUF file: heads, latents, indexers.
#include <fmt/format.h>

#include "checkpoint/gguf/binder.h"

namespace plimsoll::checkpoint::gguf {

TensorRows Binder::heads(const std::string& base, int64_t count, int64_t size) const {
  TensorRows rows(base, count * size);
  if (!architecture_.unsaid.permuted) return rows;
  rows.block = rows.stride = size;
  rows.count = count;
  rows.order = RowOrder::evens_first;
  return rows;
}

void Binder::bind_attention(AttentionSpec& attention) {
  one(attention.sinks, blk_ + "attn_sinks.weight");
  norm(attention.q_norm, blk_ + "attn_q_norm");
  norm(attention.k_norm, blk_ + "attn_k_norm");
  linear(attention.out, blk_ + "attn_output");
  linear(attention.gate, blk_ + "attn_gate");
  if (attention.latent.kv_rank > 0) return bind_latent(attention);
  const int64_t head = attention.head_dim;
  const int64_t q = attention.heads * head, k = attention.kv_heads * head;
  const int64_t v = attention.value_dim > 0 ? attention.kv_heads * attention.value_dim : k;
  const std::string fused = blk_ + "attn_qkv";
  if (has(fused + ".weight")) {
    const int64_t all = q + k + v;
    return linear(attention.qkv, {{fused, all, 0, q}, {fused, all, q, k}, {fused, all, q + k, v}});
  }
  if (attention.keys_of >= 0) return linear(attention.qkv, blk_ + "attn_q");
  std::vector<TensorRows> rows;
  if (attention.gates_in_qkv) {  // q of a head, then its gate
    for (const int64_t first : {head, int64_t{0}}) {
      TensorRows part(blk_ + "attn_q", 2 * q, first, head);
      part.stride = 2 * head;
      part.count = attention.heads;
      rows.push_back(part);
    }
  } else {
    rows.push_back(heads(blk_ + "attn_q", attention.heads, head));
  }
  rows.push_back(heads(blk_ + "attn_k", attention.kv_heads, head));
  const std::vector<Part>& stored = spec_.weight(attention.qkv.weight).parts;
  const Part &last = stored.back(), &before = stored[stored.size() - 2];
  const bool keys_are_values = last.tensor == before.tensor && last.first_row == before.first_row;
  rows.emplace_back(blk_ + (keys_are_values ? "attn_k" : "attn_v"), v);
  linear(attention.qkv, rows);
}

void Binder::bind_latent(AttentionSpec& attention) {
  model::LatentSpec& latent = attention.latent;
  bind_indexer(attention.indexer);
  norm(latent.q_norm, blk_ + "attn_q_a_norm");
  norm(latent.kv_norm, blk_ + "attn_kv_a_norm");
  linear(latent.q_down, blk_ + "attn_q_a");
  linear(latent.q_up, blk_ + (latent.q_rank > 0 ? "attn_q_b" : "attn_q"));
  std::vector<TensorRows> down;
  const int64_t kv = latent.kv_rank + latent.rotated;
  if (spec_.weight(latent.kv_down.weight).rows() > kv)
    down.emplace_back(blk_ + "attn_q_a", latent.q_rank);
  down.emplace_back(blk_ + "attn_kv_a_mqa", kv);
  linear(latent.kv_down, down);
  if (has(blk_ + "attn_kv_b.weight")) return linear(latent.kv_up, blk_ + "attn_kv_b");
  bind_latent_heads(attention);
}

void Binder::bind_indexer(model::IndexerSpec& indexer) {
  if (!indexer.chooses()) return;
  const std::string module = blk_ + "indexer.";
  linear(indexer.q_up, module + "attn_q_b");
  linear(indexer.down, {{module + "attn_k", indexer.head_dim}, {module + "proj", indexer.heads}});
  norm(indexer.k_norm, module + "k_norm");
}

void Binder::bind_latent_heads(const AttentionSpec& attention) {
  const model::LatentSpec& latent = attention.latent;
  const std::string k = blk_ + "attn_k_b.weight", v = blk_ + "attn_v_b.weight";
  fit(v, {attention.heads * attention.value_dim, latent.kv_rank});
  const std::vector<int64_t> turned = {latent.kv_rank, latent.unrotated};
  const TensorEntry* const keys = checkpoint_.find(k);
  if (keys != nullptr && keys->shape == std::vector{attention.heads * turned[0], turned[1]})
    checkpoint_.split({.tensor = k, .stored_shape = keys->shape, .count = attention.heads});
  WeightSpec& weight = spec_.weights[static_cast<size_t>(latent.kv_up.weight)];
  weight.parts.clear();
  for (int64_t h = 0; h < attention.heads; ++h) {
    weight.parts.push_back({.tensor = fmt::format("{}[{}]", k, h),
                            .stored_shape = turned,
                            .transposed = true,
                            .block_rows = latent.unrotated,
                            .block_stride = latent.unrotated});
    weight.parts.push_back({.tensor = v,
                            .stored_shape = {attention.heads * attention.value_dim, latent.kv_rank},
                            .first_row = h * attention.value_dim,
                            .block_rows = attention.value_dim,
                            .block_stride = attention.value_dim});
  }
}

}  // namespace plimsoll::checkpoint::gguf
