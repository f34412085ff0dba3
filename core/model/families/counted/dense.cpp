// Language models of multimodal ones, which `plan` alone counts: Molmo 2, Muse Glimmer, Whisper.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_molmo2(const ConfigReader& config) {
  Decoder decoder{.family = "molmo2"};
  read_common(config, decoder);
  decoder.tied = false;
  decoder.qkv_bias = config.boolean({"qkv_bias"}, true);
  decoder.qk_norm = config.boolean({"use_qk_norm"}, false);
  if (config.text({"qk_norm_type"}, "") == "olmo") {
    decoder.head_norm.weights = HeadNormStyle::Weights::all_heads;
  }
  return build(decoder);
}

ModelSpec make_muse_glimmer(const ConfigReader& config) {
  Decoder decoder{.family = "muse_glimmer"};
  read_without_positions(config, decoder);
  const Sizes& sizes = decoder.sizes;
  decoder.tied = false;
  decoder.windows =
      read_windows(config, sizes.layers, config.integer({"sliding_window"}, 0, {.least = 0}),
                   [](int64_t) { return false; });
  decoder.ropes = {read_rope(config, {.head_dim = sizes.head_dim,
                                      .max_position = sizes.max_position,
                                      .layer_type = "sliding_attention"})};
  for (const int64_t window : decoder.windows) decoder.layer_ropes.push_back(window > 0 ? 0 : -1);
  decoder.placement = NormPlacement::sandwich;
  decoder.names.attention_gate = "output_gate_proj";
  decoder.names.attention_post_norm = "post_attention_layernorm";
  decoder.names.mlp_norm = "pre_feedforward_layernorm";
  decoder.names.mlp_post_norm = "post_feedforward_layernorm";
  return build(decoder);
}

ModelSpec make_whisper(const ConfigReader& config) {
  Decoder decoder{.family = "whisper"};
  Sizes& sizes = decoder.sizes;
  sizes.vocab = config.required({"vocab_size"}, kVocabularies);
  sizes.hidden = config.required({"d_model"}, kWidths);
  sizes.layers = config.required({"decoder_layers"}, {1, 4096});
  sizes.heads = sizes.kv_heads = config.required({"decoder_attention_heads"}, kHeadCounts);
  sizes.head_dim = sizes.hidden / sizes.heads;
  sizes.intermediate = config.required({"decoder_ffn_dim"}, kWidths);
  sizes.max_position = config.integer({"max_target_positions"}, 448, kPositions);
  if (sizes.hidden % sizes.heads != 0) config.refuse("d_model", "a multiple of the heads");
  decoder.norm.kind = NormKind::layer;
  decoder.norm_tensors = NormTensors::weight_and_bias;
  decoder.tied = true;
  decoder.learned_positions = sizes.max_position;
  decoder.positions = "embed_positions";
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
  decoder.mlp_kind = MlpKind::plain;
  decoder.crossed = true;
  decoder.layer_parameters = {{"encoder_attn_layer_norm.weight", {sizes.hidden}},
                              {"encoder_attn_layer_norm.bias", {sizes.hidden}}};
  ModelSpec spec = build(decoder);
  spec.weights[static_cast<size_t>(spec.embedding)].split = Split::replicated;
  return spec;
}

}  // namespace plimsoll::model
