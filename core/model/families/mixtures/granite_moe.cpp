// Granite's mixtures: factors on embedding, branches, scores and logits; experts stored as stacks.
#include "model/families/mixtures/granite_moe.h"

#include "model/decoder.h"
#include "model/families/dense/scaled.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

Decoder read_granite(const ConfigReader& config, std::string family) {
  Decoder decoder{.family = std::move(family)};
  read_common(config, decoder);
  read_plain_attention_biases(config, decoder);
  decoder.embedding_scale = static_cast<float>(config.positive({"embedding_multiplier"}, 1));
  decoder.attention_scale = static_cast<float>(config.positive({"attention_multiplier"}, 1));
  return decoder;
}

}  // namespace

Mixture read_granite_mixture(const ConfigReader& config, const Sizes& sizes) {
  Mixture mixture = read_mixture(config, sizes.layers, {.intermediate = sizes.intermediate});
  mixture.stored = ExpertsStored::stacked;
  mixture.shared_up_fused = true;
  const std::string module = "block_sparse_moe";
  MixtureNames& names = mixture.names;
  names.router = {module + ".gate", module + ".router.layer"};
  names.experts = {module + ".experts.routed_experts", module};
  names.expert = {.gate = "", .up = "input_linear.weight", .down = "output_linear.weight"};
  names.shared = {"shared_mlp", "shared_mlp"};
  names.shared_up = "input_linear";
  names.shared_down = "output_linear";
  names.order = {MixturePart::router, MixturePart::experts, MixturePart::shared};
  return mixture;
}

namespace {

ModelSpec build_granite(const ConfigReader& config, const Decoder& decoder) {
  ModelSpec spec = build(decoder);
  const double factor = config.positive({"residual_multiplier"}, 1);
  for (LayerSpec& layer : spec.layers) layer.branch_factor = static_cast<float>(factor);
  spec.logits_scale = static_cast<float>(1 / config.positive({"logits_scaling"}, 1));
  return spec;
}

}  // namespace

ModelSpec make_granitemoe(const ConfigReader& config) {
  Decoder decoder = read_granite(config, "granitemoe");
  decoder.mixture = read_granite_mixture(config, decoder.sizes);
  return build_granite(config, decoder);
}

ModelSpec make_granitemoeshared(const ConfigReader& config) {
  Decoder decoder = read_granite(config, "granitemoeshared");
  decoder.mixture = read_granite_mixture(config, decoder.sizes);
  decoder.mixture->sizes.shared.intermediate =
      config.integer({"shared_intermediate_size"}, 0, {0, kWidths.most});
  return build_granite(config, decoder);
}

ModelSpec make_granitemoe_swa(const ConfigReader& config) {
  Decoder decoder = read_granite(config, "granitemoe_swa");
  decoder.mixture = read_granite_mixture(config, decoder.sizes);
  decoder.mixture->sizes.shared.intermediate =
      config.integer({"shared_intermediate_size"}, 0, {0, kWidths.most});
  MixtureNames& names = decoder.mixture->names;
  names.router.stored = "block_sparse_moe.router";
  names.experts.stored = "block_sparse_moe.experts";
  names.expert = {.gate = "", .up = "gate_up_proj", .down = "down_proj"};
  decoder.sinks = true;
  decoder.windows =
      read_windows(config, decoder.sizes.layers, config.integer({"sliding_window"}, 128),
                   [](int64_t layer) { return layer % 4 != 0; });
  read_layer_bases(config, decoder);
  return build_granite(config, decoder);
}

}  // namespace plimsoll::model
