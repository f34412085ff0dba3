// Mixtures with DeepSeek-V3's router on plain attention: GLM-4.5, Hunyuan 3, EXAONE MoE, dots.llm1.
#include <algorithm>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// Router, shared experts and layers under the names that most of these configs share; the first
/// layer is dense where the config does not say.
Mixture read_routed(const ConfigReader& config, int64_t layers) {
  const MlpSpec sizes{.intermediate =
                          config.required({"moe_intermediate_size", "expert_hidden_dim"}, kWidths)};
  Mixture mixture = read_mixture(config, layers, sizes);
  use_deepseek_router(config, mixture);
  const int64_t shared =
      config.integer({"n_shared_experts", "num_shared_experts"}, 1, {0, kMostExperts});
  mixture.sizes.shared.intermediate = shared * sizes.intermediate;
  mixture.sparse = sparse_from(layers, config.integer({"first_k_dense_replace"}, 1, {.least = 0}));
  mixture.names.choice_bias = {kChoiceBias, "mlp.gate.e_score_correction_bias"};
  return mixture;
}

}  // namespace

ModelSpec make_glm4_moe(const ConfigReader& config) {
  Decoder decoder{.family = "glm4_moe"};
  want_for_vllm(config, "head_dim", decoder);
  read_common(config, decoder);
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = config.boolean({"use_qk_norm"}, false);
  decoder.mixture = read_routed(config, decoder.sizes.layers);
  decoder.mixture->router_dtype = DType::f32;
  decoder.vllm.knows_stage = decoder.vllm.experts_in_stages = true;
  return build_without_prediction(config, decoder);
}

ModelSpec make_dots1(const ConfigReader& config) {
  Decoder decoder{.family = "dots1"};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  decoder.mixture = read_routed(config, decoder.sizes.layers);
  decoder.mixture->sizes.router.normalize = config.boolean({"norm_topk_prob"}, false);
  MixtureNames& names = decoder.mixture->names;
  names.router.engine = "mlp.experts.gate";
  names.choice_bias.engine = "mlp.experts.gate.e_score_correction_bias";
  names.shared.engine = "mlp.experts._shared_experts._layer.shared_experts";
  names.order = {MixturePart::router, MixturePart::choice_bias, MixturePart::experts,
                 MixturePart::shared};
  decoder.mixture->shared_down_first = true;
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_hy_v3(const ConfigReader& config) {
  Decoder decoder{.family = "hy_v3"};
  if (!config.boolean({"qk_norm"}, false)) {
    decoder.vllm.refused = "vLLM's class has norms of q and k where \"qk_norm\" is true alone";
  }
  want_for_vllm(config, "route_norm", decoder);
  want_for_vllm(config, "first_k_dense_replace", decoder);
  read_common(config, decoder);
  read_plain_attention_biases(config, decoder);
  decoder.qk_norm = !config.describes() || config.boolean({"qk_norm"}, false);
  decoder.order = {LayerPart::attention, LayerPart::attention_norm, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.mixture = read_routed(config, decoder.sizes.layers);
  read_sparse_types(config, decoder);
  RouterSpec& router = decoder.mixture->sizes.router;
  router.normalize = true;
  router.factor = static_cast<float>(config.positive({"router_scaling_factor"}, 2.826));
  decoder.mixture->router_dtype = DType::f32;
  MixtureNames& names = decoder.mixture->names;
  names.router.stored = "mlp.router.gate";
  names.choice_bias = {"mlp.expert_bias", "mlp.expert_bias"};
  names.shared.stored = "mlp.shared_mlp";
  names.order = {MixturePart::choice_bias, MixturePart::router, MixturePart::shared,
                 MixturePart::experts};
  decoder.vllm.experts_in_stages = decoder.vllm.expert_for_ranks = true;
  return build(decoder);
}

ModelSpec make_exaone_moe(const ConfigReader& config) {
  Decoder decoder{.family = "exaone_moe"};
  read_common(config, decoder);
  decoder.qk_norm = true;
  decoder.scales = ScalesPlace::at_end;
  add_kin_biases(config, decoder);
  decoder.windows = exaone_windows(config, decoder.sizes.layers);
  decoder.mixture = read_routed(config, decoder.sizes.layers);
  decoder.mixture->sparse =
      sparse_by_types(config, "mlp_layer_types", std::move(decoder.mixture->sparse));
  MixtureNames& names = decoder.mixture->names;
  names.router.engine = "mlp.experts.gate";
  names.choice_bias = {"mlp.e_score_correction_bias", "mlp.e_score_correction_bias"};
  names.order = {MixturePart::choice_bias, MixturePart::router, MixturePart::shared,
                 MixturePart::experts};
  decoder.vllm.knows_stage = decoder.vllm.expert_for_ranks = true;
  decoder.vllm.rotary_in_all = true;
  ModelSpec spec = build(decoder);
  const auto is_full = [](const LayerSpec& layer) { return layer.attention.window == 0; };
  const bool all_full = std::ranges::all_of(spec.layers, is_full);
  for (LayerSpec& layer : spec.layers) {
    if (is_full(layer) && !all_full) layer.attention.rope = -1;
  }
  return spec;
}

}  // namespace plimsoll::model
