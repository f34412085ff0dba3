// DeepSeek V3's kin: A.X-K1, Sarvam's larger mixture, openPangu Ultra.
#include "model/families/families.h"
#include "model/families/mixtures/deepseek.h"
#include "model/families/mixtures/ling.h"

namespace plimsoll::model {
namespace {

/// The latents' norms have the epsilon of all norms.
void use_config_epsilon(Decoder& decoder) {
  LatentSpec& latent = decoder.latent->attention.latent;
  latent.q_norm.epsilon = latent.kv_norm.epsilon = decoder.norm.epsilon;
}

}  // namespace

ModelSpec make_axk1(const ConfigReader& config) {
  Decoder decoder{.family = "axk1"};
  read_latent_decoder(config, decoder);
  use_v3(config, decoder, 1);
  Mixture& mixture = *decoder.mixture;
  read_sparse_types(config, decoder);
  const bool biased =
      config.text({"topk_method"}, config.has("topk_method") ? "" : kBiasedMethod) == kBiasedMethod;
  if (!biased) mixture.bias_kept = Kept::in_run;
  mixture.names.choice_bias = {kV3Bias, "mlp.gate.e_score_correction_bias"};
  decoder.placement = NormPlacement::sandwich;
  decoder.names.mlp_post_norm = "post_mlp_layernorm";
  decoder.vllm.whole_shared = VllmVersion{0, 17, 0};
  ModelSpec spec = build_without_prediction(config, decoder);
  // Dense layers have this norm too, in vLLM and in published checkpoints, and do without it.
  for (LayerSpec& layer : spec.layers) {
    if (layer.has_experts()) continue;
    spec.weights[static_cast<size_t>(layer.mlp_post_norm.weight)].kept = Kept::in_vllm;
    layer.mlp_post_norm = {};
  }
  return spec;
}

ModelSpec make_sarvam_mla(const ConfigReader& config) {
  Decoder decoder{.family = "sarvam_mla"};
  read_latent_decoder(config, decoder);
  use_config_epsilon(decoder);
  AttentionSpec& attention = decoder.latent->attention;
  attention.rope_pairs = RopePairs::neighbours;
  if (attention.latent.q_rank > 0) config.doubt("q_lora_rank", "null, as vLLM's class wants it");
  decoder.mixture = read_ling_mixture(config, decoder.sizes.layers, {.factor = 2.5});
  Mixture& mixture = *decoder.mixture;
  if (!mixture.names.choice_bias.engine.empty()) {
    mixture.names.choice_bias.stored = "mlp.gate.e_score_correction_bias";
    mixture.bias_mapping = Mapping::less_mean;
  }
  const int64_t dense = config.integer({"first_k_dense_replace"}, 1, {.least = 0});
  const int64_t step = config.integer({"moe_layer_freq"}, 1, {1, 4096});
  for (int64_t i = dense; i < decoder.sizes.layers; ++i) {
    mixture.sparse[static_cast<size_t>(i)] = (i - dense) % step == 0;
  }
  decoder.vllm.knows_stage = decoder.vllm.experts_in_stages = true;
  return build(decoder);
}

ModelSpec make_pangu_ultra_moe(const ConfigReader& config) {
  Decoder decoder{.family = "pangu_ultra_moe"};
  read_latent_decoder(config, decoder);
  use_config_epsilon(decoder);
  decoder.latent->attention.rope_pairs = RopePairs::neighbours;
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.vllm.whole_shared = VllmVersion{0, 11, 1};
  const MlpSpec missing{.intermediate = config.required({"moe_intermediate_size"}, kWidths)};
  decoder.mixture = read_mixture(config, decoder.sizes.layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.router = {
      .score = RouterScore::sigmoid,
      .normalize = config.boolean({"norm_topk_prob"}, true),
      .epsilon = 1e-20f,
      .factor = static_cast<float>(config.positive({"routed_scaling_factor"}, 1))};
  if (config.boolean({"router_enable_expert_bias"}, false)) {
    mixture.names.choice_bias = {kChoiceBias, "mlp.e_score_correction_bias"};
  }
  mixture.sizes.shared.intermediate =
      config.integer({"n_shared_experts"}, 0, {0, kMostExperts}) * missing.intermediate;
  mixture.sparse =
      sparse_from(decoder.sizes.layers, config.integer({"first_k_dense_replace"}, 0, {.least = 0}));
  if (config.boolean({"sandwich_norm"}, false)) {
    decoder.placement = NormPlacement::sandwich;
    decoder.names.attention_post_norm = "post_attention_layernorm";
    decoder.names.mlp_norm = "pre_mlp_layernorm";
    decoder.names.mlp_post_norm = "post_mlp_layernorm";
  }
  decoder.vllm.knows_stage = decoder.vllm.experts_in_stages = true;
  decoder.vllm.float_rotary = true;
  return build_without_prediction(config, decoder);
}

}  // namespace plimsoll::model
