// LongCat-Flash: two latent attentions and two MLPs a layer, and experts beside the second half
// whose output joins at its end.
#include <cmath>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

Mixture read_longcat_mixture(const ConfigReader& config, int64_t layers) {
  MlpSpec missing{};
  missing.intermediate = config.integer({"expert_ffn_hidden_size"}, 2048, kWidths);
  Mixture mixture = read_mixture(config, layers, missing);
  RouterSpec& router = mixture.sizes.router;
  mixture.sizes.experts_per_token = config.integer({"moe_topk"}, 12, {1, mixture.sizes.experts});
  router.normalize = config.boolean({"norm_topk_prob"}, false);
  router.factor = static_cast<float>(config.positive({"routed_scaling_factor"}, 6));
  router.identities = config.integer({"zero_expert_num"}, 256, {0, kMostExperts});
  if (mixture.sizes.experts + router.identities > kMostExperts) {
    config.refuse("zero_expert_num", fmt::format("at most {} with the experts", kMostExperts));
  }
  const std::string kind = config.text({"zero_expert_type"}, "identity");
  if (router.identities > 0 && kind != "identity") config.doubt("zero_expert_type", "identity");
  mixture.router_dtype = DType::f32;
  mixture.router_bias = config.boolean({"router_bias"}, false);
  MixtureNames& names = mixture.names;
  names.router = {"mlp.router.classifier", "mlp.router.classifier"};
  names.choice_bias = {kChoiceBias, "mlp.router.e_score_correction_bias"};
  names.order = {MixturePart::choice_bias, MixturePart::router, MixturePart::experts};
  return mixture;
}

/// Factors of the latents behind their norms, which stand in the norms' weights.
void scale_latents(const ConfigReader& config, ModelSpec& spec) {
  const auto scale = [&](const char* key, const Norm& norm, int64_t rank) {
    if (rank == 0 || !config.boolean({key}, true)) return;
    const double factor =
        std::sqrt(static_cast<double>(spec.hidden_size) / static_cast<double>(rank));
    for (Part& part : spec.weights[static_cast<size_t>(norm.weight)].parts) {
      part.factor = static_cast<float>(factor);
    }
  };
  for (LayerSpec& layer : spec.layers) {
    const LatentSpec& latent = layer.attention.latent;
    scale("mla_scale_q_lora", latent.q_norm, latent.q_rank);
    scale("mla_scale_kv_lora", latent.kv_norm, latent.kv_rank);
  }
}

}  // namespace

ModelSpec make_longcat_flash(const ConfigReader& config) {
  Decoder decoder{.family = "longcat_flash"};
  want_for_vllm(config, "zero_expert_type", decoder);
  want_for_vllm(config, "mla_scale_q_lora", decoder);
  want_for_vllm(config, "mla_scale_kv_lora", decoder);
  read_without_positions(config, decoder);
  const Sizes& sizes = decoder.sizes;
  Latent latent{.attention = read_latent(config, sizes.heads, 0)};
  latent.attention.rope_pairs = RopePairs::neighbours;
  decoder.ropes = {read_rope(
      config, {.head_dim = latent.attention.latent.rotated, .max_position = sizes.max_position})};
  decoder.latent = latent;
  decoder.mixture = read_longcat_mixture(config, sizes.layers);
  decoder.halves = true;
  decoder.names.mlp = "mlps";
  decoder.vllm.knows_stage = true;
  ModelSpec spec = build(decoder);
  spec.ignored_prefixes.emplace_back("model.mtp.");
  scale_latents(config, spec);
  return spec;
}

}  // namespace plimsoll::model
