// Kimi Linear: latent attention without positions between layers of the delta rule whose decays are
// of each channel. MiniMax: lightning attention, and residuals from behind the norms.
#include <bit>
#include <utility>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/mixtures/deepseek.h"

namespace plimsoll::model {
namespace {

/// `layer_types`, else the numbers from 1 on of `linear_attn_config`, else attention in each fourth
/// layer but the first.
std::vector<LayerParts> read_kimi_parts(const ConfigReader& config, int64_t layers) {
  const auto attends =
      read_layer_types(config, "layer_types", layers, "full_attention", "linear_attention");
  if (attends) return attention_or_recurrent(*attends);
  auto recurs =
      read_layer_list(config.object_or_empty("linear_attn_config"), "kda_layers", layers, 1);
  if (!recurs) {
    recurs.emplace(static_cast<size_t>(layers), true);
    for (size_t i = 4; i < recurs->size(); i += 4) (*recurs)[i] = false;
  }
  recurs->flip();
  return attention_or_recurrent(*recurs);
}

Mixture read_kimi_mixture(const ConfigReader& config, int64_t layers) {
  MlpSpec missing;
  missing.experts_per_token = config.integer({"num_experts_per_token"}, 0, {1, kMostExperts});
  missing.intermediate = config.integer({"moe_intermediate_size"}, 0, kWidths);
  Mixture mixture = read_mixture(config, layers, missing);
  MlpSpec& sizes = mixture.sizes;
  sizes.router.score = RouterScore::sigmoid;
  if (config.text({"moe_router_activation_func"}, "sigmoid") != "sigmoid") {
    config.doubt("moe_router_activation_func", "sigmoid");
  }
  sizes.router.normalize = config.boolean({"moe_renormalize", "norm_topk_prob"}, true);
  sizes.router.epsilon = 1e-20f;
  sizes.router.factor = static_cast<float>(config.positive({"routed_scaling_factor"}, 1));
  if (config.integer({"num_expert_group", "n_group"}, 1, {1, sizes.experts}) != 1) {
    config.doubt("num_expert_group", "1");
  }
  sizes.shared.intermediate =
      config.integer({"num_shared_experts", "n_shared_experts"}, 0, {0, kMostExperts}) *
      sizes.intermediate;
  mixture.sparse = sparse_after_dense(config, layers, 1);
  mixture.names = names_within(kBlockMixture);
  mixture.names.choice_bias = {"block_sparse_moe.experts.routed_experts.e_score_correction_bias",
                               "block_sparse_moe.gate.e_score_correction_bias"};
  return mixture;
}

Decoder read_kimi(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  read_unrotated_latents(config, decoder);
  const Sizes& sizes = decoder.sizes;
  if (decoder.latent->attention.latent.rotated == 0) {
    config.refuse("qk_rope_head_dim", "a positive number");
  }
  if (!config.boolean({"mla_use_nope"}, true)) config.doubt("mla_use_nope", "true");
  decoder.latent->modules = LatentModules::scales_first;
  decoder.parts = read_kimi_parts(config, sizes.layers);
  decoder.recurrent = read_channel_delta(config, decoder.norm.epsilon);
  decoder.mixture = read_kimi_mixture(config, sizes.layers);
  read_sparse_types(config, decoder);
  decoder.vllm.knows_stage = true;
  decoder.vllm.whole = "vLLM pads what its layers of the delta rule read, and fills no padding";
  decoder.vllm.unit_scale = true;
  decoder.vllm.least_expert_slice = 256;
  return decoder;
}

/// Experts in a space of their own width, where the config states one.
void read_narrow_experts(const ConfigReader& config, int64_t hidden, Mixture& mixture) {
  const int64_t width = config.integer({"routed_expert_hidden_size"}, hidden, kWidths);
  if (width == hidden) return;
  mixture.sizes.latent = width;
  mixture.latent_norm = config.boolean({"latent_moe_use_norm"}, false);
  MixtureNames& names = mixture.names;
  names.latent_in.engine = names.latent_in.stored = "block_sparse_moe.routed_expert_down_proj";
  names.latent_out.engine = names.latent_out.stored = "block_sparse_moe.routed_expert_up_proj";
}

}  // namespace

ModelSpec make_kimi_linear(const ConfigReader& config) {
  return build(read_kimi(config, "kimi_linear"));
}

ModelSpec make_kimi_k3(const ConfigReader& config) {
  Decoder decoder = read_kimi(config, "kimi_k3");
  const int64_t hidden = decoder.sizes.hidden;
  decoder.tied = false;
  decoder.latent->modules = LatentModules::within;
  if (config.boolean({"mla_use_output_gate"}, false)) decoder.names.attention_gate = "g_proj";
  decoder.recurrent->full_gate =
      config.object_or_empty("linear_attn_config").boolean({"use_full_rank_gate"}, false);
  read_narrow_experts(config, hidden, *decoder.mixture);
  if (config.find({"attn_res_block_size"}) != nullptr) {  // attention to the layers before
    for (const char* name :
         {"self_attention_res_norm", "self_attention_res_proj", "mlp_res_norm", "mlp_res_proj"}) {
      decoder.layer_parameters.push_back({name, {hidden}});
    }
    decoder.end_parameters = {{"output_attn_res_norm", {hidden}},
                              {"output_attn_res_proj", {hidden}}};
  }
  return build(decoder);
}

namespace {

/// The decoder of both spellings of MiniMax's configs, but for the residuals' factors and which
/// layers have attention. `share`: of a head that is rotated.
Decoder read_minimax(const ConfigReader& config, std::string family, double share) {
  Decoder decoder{.family = std::move(family)};
  read_common(config, decoder, {.share = share});
  // transformers computes these tensors from the layer's number, and saves them.
  decoder.ignored = {".slope_rate", ".query_decay", ".key_decay", ".diagonal_decay"};
  const Sizes& sizes = decoder.sizes;
  refuse_many_heads(config, sizes);
  decoder.placement = NormPlacement::residual;
  decoder.vllm.float_states = true;
  decoder.recurrent = RecurrentTable{.module = "self_attn"};
  RecurrentSpec& mixer = decoder.recurrent->sizes;
  mixer.kind = RecurrentKind::linear;
  mixer.heads = mixer.groups = sizes.heads;
  mixer.head_dim = mixer.state = sizes.head_dim;
  mixer.norm = {.epsilon = 1e-6f, .present = true};  // not in the config
  mixer.gated = RecurrentSpec::Gated::after_norm;
  mixer.gate = GateKind::sigmoid;
  decoder.mixture = read_mixture(config, sizes.layers, {.intermediate = sizes.intermediate});
  decoder.mixture->names = names_within(kBlockMixture);
  return decoder;
}

Blend read_blend(const ConfigReader& config, const std::string& alpha, const std::string& beta) {
  return {.alpha = static_cast<float>(config.positive({alpha}, 1)),
          .beta = static_cast<float>(config.positive({beta}, 1))};
}

/// MiniMax-01's list of numbers, 1 for attention; else attention in each eighth layer.
std::vector<bool> read_attention_types(const ConfigReader& config, int64_t layers) {
  constexpr const char* kTypes = "attn_type_list";
  const Json* types = config.find({kTypes, "decoder_attention_types"});
  if (types == nullptr) return sparse_every(layers, 8);
  if (!types->is_array() || std::ssize(*types) < layers) {
    config.refuse(kTypes, fmt::format("a list of {} layers, each 0 or 1", layers));
  }
  std::vector<bool> attends;
  for (int64_t i = 0; i < layers; ++i) {
    const Json& type = (*types)[static_cast<size_t>(i)];
    if (type != 0 && type != 1) config.refuse(kTypes, "0 and 1 alone");
    attends.push_back(type == 1);
  }
  return attends;
}

}  // namespace

ModelSpec make_minimax(const ConfigReader& config) {
  Decoder decoder = read_minimax(config, "minimax", 1);
  const auto blend = [&](const std::string& part) {
    return read_blend(config, part + "_alpha_factor", part + "_beta_factor");
  };
  decoder.attention_blend = blend("full_attn");
  decoder.recurrent_blend = blend("linear_attn");
  decoder.mlp_blend = blend("mlp");
  const int64_t layers = decoder.sizes.layers;
  std::vector<bool> attends = sparse_every(layers, 2);
  attends.flip();  // from the first on
  decoder.parts = attention_or_recurrent(
      read_layer_types(config, "layer_types", layers, "full_attention", "linear_attention")
          .value_or(std::move(attends)));
  decoder.vllm.refused = "vLLM 0.32.0 does not load MiniMax of this class";
  return build(decoder);
}

ModelSpec make_minimax_m1(const ConfigReader& config) {
  const Sizes sizes = read_sizes(config);
  const int64_t columns = config.integer({"rotary_dim"}, sizes.head_dim, {1, sizes.head_dim});
  Decoder decoder = read_minimax(
      config, "minimax_m1", static_cast<double>(columns) / static_cast<double>(sizes.head_dim));
  const auto blend = [&](const std::string& part) {
    const std::string key = "layernorm_" + part;
    return read_blend(config, key + "_alpha", key + "_beta");
  };
  decoder.attention_blend = blend("full_attention");
  decoder.recurrent_blend = blend("linear_attention");
  decoder.mlp_blend = blend("mlp");
  decoder.parts = attention_or_recurrent(
      read_layer_types(config, "layer_types", sizes.layers, "full_attention", "linear_attention")
          .value_or(read_attention_types(config, sizes.layers)));
  if (!config.boolean({"postnorm"}, false)) config.doubt("postnorm", "true");
  if (config.integer({"shared_intermediate_size"}, 0, {.least = 0}) > 0) {
    config.doubt("shared_intermediate_size", "0");
  }
  if (!std::has_single_bit(static_cast<uint64_t>(sizes.heads))) {
    config.doubt("num_attention_heads", "a power of two, which the heads' decays go by");
  }
  decoder.vllm.knows_stage = true;
  decoder.vllm.refused = "vLLM has no class for it from 0.24.0 on";
  return build(decoder);
}

}  // namespace plimsoll::model
