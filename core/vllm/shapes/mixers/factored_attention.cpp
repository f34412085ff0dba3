// Step-3's attention: a query shared by all heads and spread over them by a second matrix, and one
// head of keys and values (multi-matrix factorization attention, arXiv 2507.19427).
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

void add_factored_attention(Builder& build, int64_t layer) {
  const std::string path = build.layer_path(layer) + ".self_attn";
  const int64_t heads = build.dims.heads;
  const int64_t size = build.dims.head_size;
  const int64_t hidden = build.dims.hidden;
  RankWeights& weights = build.weights;
  static_cast<void>(weights.share(heads, "the number of attention heads"));
  const int64_t shared = build.config.integer({"share_q_dim"}, size, {1, 1 << 24});
  weights.linear(Part::attention,
                 {{path, "qkv_proj", {}}, hidden, {shared + 2 * size}, Split::none});
  build.norm(shared, Part::attention);
  weights.linear(Part::attention, {{path, "wq", {}}, shared, {heads * size}});
  weights.linear(Part::attention, {{path, "o_proj", {}}, heads * size, {hidden}, Split::inputs});
  add_rotary(build, size, "");
  weights.attention_scales();
  build.shape.kv_layers.push_back(attention_cache(build, 1, size, size, 0, KvKind::full));
}

}  // namespace plimsoll::vllm
