// Language models of multimodal ones, which `plan` alone counts: Molmo 2, Muse Glimmer.
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

}  // namespace plimsoll::model
