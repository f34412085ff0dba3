// Layers of a decoder that reads an encoder's states beside its own tokens (Whisper:
// vllm/model_executor/models/whisper.py).
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

void add_crossed_attention(Builder& build, int64_t layer) {
  add_attention(build, layer);
  const std::string path = build.layer_path(layer) + ".encoder_attn";
  const int64_t hidden = build.dims.hidden;
  const int64_t inner = build.dims.heads * build.dims.head_size;
  RankWeights& weights = build.weights;
  weights.linear(Part::attention, {{path, "q_proj", {}}, hidden, {inner}, Split::outputs, true});
  weights.linear(
      Part::attention,
      {{path, "kv_proj", {"k_proj", "v_proj"}}, hidden, {inner, inner}, Split::outputs, true});
  weights.linear(Part::attention, {{path, "out_proj", {}}, inner, {hidden}, Split::inputs, true});
  weights.attention_scales();
  const int64_t own = weights.kv_heads(build.dims.heads);
  const int64_t size = build.dims.head_size;
  build.shape.kv_layers.push_back(attention_cache(build, own, size, size, 0, KvKind::crossed));
  build.shape.encoder_decoder = true;
}

}  // namespace plimsoll::vllm
