// Aria's text part: Llama's layers with experts, as wide as its MLPs, in transposed stacks.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_aria_text(const ConfigReader& config) {
  Decoder decoder{.family = "aria_text"};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  add_llama_biases(config, decoder);
  if (config.boolean({"mlp_bias"}, false)) config.doubt("mlp_bias", "false");  // of shared experts
  const int64_t width = decoder.sizes.intermediate;
  MlpSpec missing{.intermediate = width};
  missing.experts_per_token = config.integer({"moe_topk"}, 2, {1, kMostExperts});
  decoder.mixture = read_mixture(config, decoder.sizes.layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.shared.intermediate =
      config.integer({"moe_num_shared_experts"}, 2, {0, kMostExperts}) * width;
  mixture.stored = ExpertsStored::transposed;
  MixtureNames& names = mixture.names;
  names.router = {"mlp.router", "mlp.router"};
  names.expert = {.gate = "", .up = "fc1.weight", .down = "fc2.weight"};
  decoder.vllm.knows_stage = true;
  ModelSpec spec = build(decoder);
  for (const LayerSpec& layer : spec.layers) {  // a parameter of the layer, not of a module
    if (!layer.has_experts()) continue;
    std::string& name = spec.weights[static_cast<size_t>(layer.mlp.router.gate.weight)].name;
    name.replace(name.rfind(".weight"), 1, "_");
  }
  return spec;
}

}  // namespace plimsoll::model
