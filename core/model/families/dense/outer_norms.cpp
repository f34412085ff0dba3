// OLMo and EXAONE 4: norms behind the branches alone. The first OLMo has plain ones before them,
// without weights, and clamps q, k and v.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

Decoder read_olmo(const ConfigReader& config, const char* family,
                  const CommonDefaults& defaults = {}) {
  Decoder decoder{.family = family};
  read_common(config, decoder, defaults);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  use_transformers_class(decoder);
  return decoder;
}

Decoder read_later_olmo(const ConfigReader& config, const char* family,
                        const CommonDefaults& defaults = {}) {
  Decoder decoder = read_olmo(config, family, defaults);
  use_outer_norms(decoder);
  decoder.qk_norm = true;
  decoder.head_norm.weights = HeadNormStyle::Weights::all_heads;
  return decoder;
}

}  // namespace

ModelSpec make_olmo(const ConfigReader& config) {
  Decoder decoder = read_olmo(config, "olmo");
  decoder.norm = {.kind = NormKind::layer, .epsilon = 1e-5f};  // not in the config
  decoder.norm_tensors = NormTensors::none;
  decoder.clamp = static_cast<float>(config.positive({"clip_qkv"}).value_or(0));
  return build(decoder);
}

ModelSpec make_olmo2(const ConfigReader& config) {
  return build(read_later_olmo(config, "olmo2"));
}

ModelSpec make_olmo3(const ConfigReader& config) {
  Decoder decoder = read_later_olmo(config, "olmo3", {.flat_rope_is_idle = true});
  const Sizes& sizes = decoder.sizes;
  decoder.windows = read_windows(config, sizes.layers, config.integer({"sliding_window"}, 4096),
                                 [](int64_t layer) { return (layer + 1) % 4 != 0; });
  // A `rope_theta` outside of `rope_parameters` is that of the layers without windows.
  decoder.ropes.push_back(read_local_rope(config, {.head_dim = sizes.head_dim,
                                                   .max_position = sizes.max_position,
                                                   .theta = 500000,
                                                   .theta_key = "",
                                                   .layer_type = "sliding_attention"}));
  return build(decoder);
}

ModelSpec make_exaone4(const ConfigReader& config) {
  Decoder decoder{.family = "exaone4"};
  read_common(config, decoder);
  use_outer_norms(decoder);
  decoder.qk_norm = true;
  decoder.scales = ScalesPlace::at_end;
  add_kin_biases(config, decoder);
  decoder.windows = exaone_windows(config, decoder.sizes.layers);
  // With windows somewhere, layers without one have no RoPE.
  for (const int64_t window : decoder.windows) decoder.layer_ropes.push_back(window > 0 ? 0 : -1);
  decoder.vllm.knows_stage = decoder.vllm.rotary_in_all = true;
  return build(decoder);
}

}  // namespace plimsoll::model
