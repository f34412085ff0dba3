// Kimi Linear: latent attention without positions between layers of the delta rule whose decays are
// of each channel. MiniMax: lightning attention, and residuals from behind the norms.
#include <bit>
#include <utility>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

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

RecurrentTable read_kimi_delta(const ConfigReader& config, float epsilon) {
  constexpr IntegerRange kSizes{1, 65536};
  const ConfigReader mixers = config.object_or_empty("linear_attn_config");
  RecurrentTable table{.module = "self_attn"};
  RecurrentSpec& sizes = table.sizes;
  sizes.kind = RecurrentKind::channel_delta;
  const auto size = [&](std::string_view key, std::string_view newer, IntegerRange range) {
    const auto stated = mixers.integer({key}, range);
    return stated ? *stated : config.required({newer}, range);
  };
  sizes.heads = sizes.groups = size("num_heads", "linear_num_heads", kSizes);
  sizes.head_dim = sizes.state = sizes.rank = size("head_dim", "linear_head_dim", kSizes);
  sizes.conv = {.width = 3 * sizes.width(),
                .taps = size("short_conv_kernel_size", "linear_conv_kernel_dim", {1, kMostTaps}),
                .activation = Activation::silu};
  sizes.norm = {.epsilon = epsilon, .present = true};
  sizes.norm_groups = sizes.heads;
  sizes.gated = RecurrentSpec::Gated::after_norm;
  sizes.gate = GateKind::sigmoid;
  return table;
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

}  // namespace

ModelSpec make_kimi_linear(const ConfigReader& config) {
  Decoder decoder{.family = "kimi_linear"};
  read_common(config, decoder);
  const Sizes& sizes = decoder.sizes;
  if (!config.boolean({"mla_use_nope"}, true)) config.doubt("mla_use_nope", "true");
  decoder.ropes.clear();
  decoder.latent = Latent{.attention = read_latent(config, sizes.heads, -1),
                          .modules = LatentModules::scales_first};
  decoder.parts = read_kimi_parts(config, sizes.layers);
  decoder.recurrent = read_kimi_delta(config, decoder.norm.epsilon);
  decoder.mixture = read_kimi_mixture(config, sizes.layers);
  read_sparse_types(config, decoder);
  decoder.vllm.knows_stage = true;
  decoder.vllm.whole = "vLLM pads what its layers of the delta rule read, and fills no padding";
  decoder.vllm.unit_scale = true;
  decoder.vllm.least_expert_slice = 256;
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
