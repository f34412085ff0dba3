// Granite and HyperCLOVA X: factors at embedding, attention, branches and logits.
#include "model/families/dense/scaled.h"
#include "base/error.h"
#include "model/families/families.h"

namespace plimsoll::model {

Decoder read_scaled(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  read_common(config, decoder);
  const auto factor = [&](std::string_view key) {
    return static_cast<float>(config.positive({key}, 1));
  };
  decoder.embedding_scale = factor("embedding_multiplier");
  decoder.attention_scale = factor("attention_multiplier");
  decoder.branch_factor = factor("residual_multiplier");
  decoder.logits_scale = factor("logits_scaling");
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.vllm.knows_stage = true;
  return decoder;
}

namespace {

/// The config with another base of its RoPE.
Json with_base(const ConfigReader& config, double theta) {
  Json changed = config.json();
  changed["rope_theta"] = theta;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (changed.contains(key) && changed[key].is_object()) changed[key]["rope_theta"] = theta;
  }
  return changed;
}

}  // namespace

void read_layer_bases(const ConfigReader& config, Decoder& decoder) {
  const Json* bases = config.find({"layer_rope_theta"});
  if (bases == nullptr) return;
  const std::string expected = fmt::format("a list of {} layers", decoder.sizes.layers);
  if (!bases->is_array() || std::ssize(*bases) < decoder.sizes.layers) {
    config.refuse("layer_rope_theta", expected);
  }
  if (std::ssize(*bases) > decoder.sizes.layers) config.doubt("layer_rope_theta", expected);
  std::vector<double> known;
  for (const Json& base : *bases) {
    if (!base.is_null() && !base.is_number()) {
      config.refuse("layer_rope_theta", "a list of numbers or null");
    }
    const double theta = base.is_null() ? 0 : base.get<double>();
    if (!(theta >= 0 && theta < 1e30)) config.refuse("layer_rope_theta", "numbers from 0 on");
    if (theta == 0) {
      decoder.layer_ropes.push_back(-1);
      continue;
    }
    size_t index = 0;
    while (index < known.size() && known[index] != theta) ++index;
    if (index == known.size()) {
      known.push_back(theta);
      // The first stays: the context hangs on it, and layers need not use it.
      const Json changed = with_base(config, theta);
      decoder.ropes.push_back(read_rope(
          config.reading(changed),
          {.head_dim = decoder.sizes.head_dim, .max_position = decoder.sizes.max_position}));
    }
    decoder.layer_ropes.push_back(static_cast<int32_t>(index + 1));
  }
}

ModelSpec make_granite(const ConfigReader& config) {
  Decoder decoder = read_scaled(config, "granite");
  add_kin_biases(config, decoder);
  decoder.logits_scale = 1 / decoder.logits_scale;
  return build(decoder);
}

ModelSpec make_granite_swa(const ConfigReader& config) {
  Decoder decoder = read_scaled(config, "granite_swa");
  add_kin_biases(config, decoder);
  decoder.logits_scale = 1 / decoder.logits_scale;
  decoder.sinks = true;
  decoder.windows =
      read_windows(config, decoder.sizes.layers, config.integer({"sliding_window"}, 128),
                   [](int64_t layer) { return layer % 4 != 0; });
  read_layer_bases(config, decoder);
  return build(decoder);
}

ModelSpec make_hyperclovax(const ConfigReader& config) {
  Decoder decoder = read_scaled(config, "hyperclovax");
  if (!config.has("attention_multiplier")) decoder.attention_scale = 0;  // by the head's size
  if (config.boolean({"use_post_norm"}, true)) {
    decoder.placement = NormPlacement::sandwich;
    decoder.names.attention_post_norm = "post_norm1";
    decoder.names.mlp_post_norm = "post_norm2";
    decoder.order = {LayerPart::attention,           LayerPart::mlp,
                     LayerPart::attention_norm,      LayerPart::mlp_norm,
                     LayerPart::attention_post_norm, LayerPart::mlp_post_norm};
  }
  return build(decoder);
}

}  // namespace plimsoll::model
