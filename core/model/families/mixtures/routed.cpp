// Mixtures with DeepSeek-V3's router on plain attention: GLM-4.5, Hunyuan 3, EXAONE MoE, dots.llm1.
#include <algorithm>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

struct RoutedDefaults {
  MlpSpec sizes;
  int64_t dense_layers = 1;
  double factor = 1;  // routed_scaling_factor
};

/// Router, shared experts and layers under the names that most of these configs share.
Mixture read_routed(const ConfigReader& config, int64_t layers, const RoutedDefaults& missing) {
  MlpSpec sizes = missing.sizes;
  sizes.intermediate =
      config.integer({"moe_intermediate_size", "expert_hidden_dim"}, sizes.intermediate, kWidths);
  Mixture mixture = read_mixture(config, layers, sizes);
  use_deepseek_router(config, mixture, missing.factor);
  const int64_t shared =
      config.integer({"n_shared_experts", "num_shared_experts"}, 1, {0, kMostExperts});
  mixture.sizes.shared.intermediate = shared * sizes.intermediate;
  mixture.sparse = sparse_by_types(
      config, "mlp_layer_types",
      sparse_from(layers,
                  config.integer({"first_k_dense_replace"}, missing.dense_layers, {.least = 0})));
  mixture.names.choice_bias = {"mlp.experts.routed_experts.e_score_correction_bias",
                               "mlp.gate.e_score_correction_bias"};
  return mixture;
}

}  // namespace

ModelSpec make_glm4_moe(const ConfigReader& config) {
  Decoder decoder{.family = "glm4_moe"};
  read_common(config, decoder,
              {.sizes = {.vocab = 151552,
                         .hidden = 4096,
                         .intermediate = 10944,
                         .layers = 46,
                         .heads = 96,
                         .kv_heads = 8,
                         .max_position = 131072},
               .epsilon = 1e-5,
               .share = 0.5});
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = config.boolean({"use_qk_norm"}, false);
  decoder.mixture =
      read_routed(config, decoder.sizes.layers,
                  {.sizes = {.intermediate = 1408, .experts = 128, .experts_per_token = 8}});
  decoder.mixture->router_dtype = DType::f32;
  decoder.vllm.knows_stage = decoder.vllm.experts_in_stages = true;
  return build_without_prediction(config, decoder);
}

ModelSpec make_dots1(const ConfigReader& config) {
  Decoder decoder{.family = "dots1"};
  read_common(config, decoder,
              {.sizes = {.vocab = 152064,
                         .hidden = 4608,
                         .intermediate = 10944,
                         .layers = 62,
                         .heads = 32,
                         .kv_heads = 32,
                         .max_position = 2048}});
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  decoder.mixture = read_routed(
      config, decoder.sizes.layers,
      {.sizes = {.intermediate = 1408, .experts = 128, .experts_per_token = 6}, .dense_layers = 0});
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
  read_common(config, decoder,
              {.sizes = {.vocab = 120832,
                         .hidden = 4096,
                         .intermediate = 13312,
                         .layers = 80,
                         .heads = 64,
                         .kv_heads = 8,
                         .head_dim = 128,
                         .max_position = 131072},
               .epsilon = 1e-5,
               .theta = 11158840});
  read_plain_attention_biases(config, decoder);
  decoder.qk_norm = true;
  decoder.order = {LayerPart::attention, LayerPart::attention_norm, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.mixture =
      read_routed(config, decoder.sizes.layers,
                  {.sizes = {.intermediate = 1536, .experts = 192, .experts_per_token = 8}});
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
  read_common(config, decoder,
              {.sizes = {.vocab = 102400,
                         .hidden = 4096,
                         .intermediate = 16384,
                         .layers = 32,
                         .heads = 32,
                         .kv_heads = 32,
                         .max_position = 2048},
               .epsilon = 1e-5});
  decoder.qk_norm = true;
  decoder.scales = ScalesPlace::at_end;
  add_kin_biases(config, decoder);
  decoder.windows = exaone_windows(config, decoder.sizes.layers);
  decoder.mixture = read_routed(
      config, decoder.sizes.layers,
      {.sizes = {.intermediate = 1024, .experts = 64, .experts_per_token = 8}, .factor = 2.5});
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
