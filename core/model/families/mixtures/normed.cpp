// Mixtures whose q and k have norms of their own kinds: OLMoE, FlexOlmo, MiniMax M2, Hunyuan A13B.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// A number, or the first of a list with the same number for each layer.
int64_t same_in_all(const ConfigReader& config, std::string_view key, int64_t missing,
                    IntegerRange range) {
  const Json* value = config.find({key});
  if (value == nullptr || !value->is_array()) return config.integer({key}, missing, range);
  const bool same = !value->empty() && std::ranges::all_of(*value, [&](const Json& each) {
    return each.is_number_integer() && each == value->front();
  });
  if (!same) config.refuse(key, "the same number for all layers");
  const Json one = {{std::string(key), value->front()}};
  return config.reading(one).integer({key}, missing, range);
}

/// OLMo's mixtures, of experts as wide as a dense MLP: q and k normed over all heads.
Decoder read_olmo_mixture(const ConfigReader& config, std::string family) {
  Decoder decoder{.family = std::move(family)};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  decoder.head_norm.weights = HeadNormStyle::Weights::all_heads;
  decoder.mixture =
      read_mixture(config, decoder.sizes.layers, {.intermediate = decoder.sizes.intermediate});
  decoder.mixture->sizes.router.normalize = config.boolean({"norm_topk_prob"}, false);
  return decoder;
}

}  // namespace

ModelSpec make_olmoe(const ConfigReader& config) {
  Decoder decoder = read_olmo_mixture(config, "olmoe");
  read_plain_attention_biases(config, decoder);
  decoder.attention_order = AttentionOrder::norms_before_out;
  if (config.find({"clip_qkv"}) != nullptr) config.doubt("clip_qkv", "null");
  return build(decoder);
}

ModelSpec make_flex_olmo(const ConfigReader& config) {
  Decoder decoder = read_olmo_mixture(config, "flex_olmo");
  use_outer_norms(decoder);
  decoder.mixture->names.router.engine = "mlp.experts.gate";
  use_transformers_class(decoder);
  return build(decoder);
}

namespace {

/// MiniMax's mixtures from M2 on. `rotated`: share of a head's columns where the config has none;
/// `biased`: whether the router has a bias where it does not say.
Decoder read_minimax_mixture(const ConfigReader& config, std::string family, double rotated,
                             bool biased) {
  Decoder decoder{.family = std::move(family)};
  constexpr int64_t kHead = 128;
  const int64_t head = config.integer({"head_dim"}, kHead, kWidths);
  // Published checkpoints state the columns that are rotated.
  const auto columns = config.integer({"rotary_dim"}, {1, head});
  if (columns) rotated = static_cast<double>(*columns) / static_cast<double>(head);
  read_common(config, decoder, {.share = rotated});
  decoder.qk_norm = true;
  decoder.mixture =
      read_mixture(config, decoder.sizes.layers, {.intermediate = decoder.sizes.intermediate});
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.router.score = RouterScore::sigmoid;
  mixture.router_dtype = DType::f32;
  // transformers' class has it whatever the config says.
  if (!config.boolean({"use_routing_bias"}, biased)) mixture.bias_kept = Kept::in_run;
  MixtureNames& names = mixture.names = names_within(kBlockMixture);
  names.choice_bias.engine = names.choice_bias.stored = "block_sparse_moe.e_score_correction_bias";
  decoder.vllm.knows_stage = true;
  return decoder;
}

/// Size of the index of each layer that `sparse_attention_config` marks.
std::vector<int64_t> read_block_index(const ConfigReader& config, int64_t layers) {
  constexpr IntegerRange kIndex{1, 1 << 20};
  const ConfigReader sparse = config.object_or_empty("sparse_attention_config");
  const Json* marks = sparse.find({"sparse_attention_freq"});
  std::vector<int64_t> sizes(static_cast<size_t>(layers));
  if (marks == nullptr || !marks->is_array()) return sizes;
  for (size_t i = 0; i < std::min(sizes.size(), marks->size()); ++i) {
    if ((*marks)[i] != 0) sizes[i] = sparse.required({"sparse_index_dim"}, kIndex);
  }
  return sizes;
}

}  // namespace

ModelSpec make_minimax_m2(const ConfigReader& config) {
  Decoder decoder = read_minimax_mixture(config, "minimax_m2", 1, false);
  want_for_vllm(config, "scoring_func", decoder);
  decoder.head_norm.weights = HeadNormStyle::Weights::all_heads;
  decoder.head_norm.cut = true;
  decoder.mixture->names.order = {MixturePart::choice_bias, MixturePart::experts,
                                  MixturePart::router};
  decoder.vllm.expert_for_ranks = true;
  return build(decoder);
}

ModelSpec make_minimax_m3(const ConfigReader& config) {
  Decoder decoder = read_minimax_mixture(config, "minimax_m3", 0.5, true);
  decoder.tied = false;
  Sizes& sizes = decoder.sizes;
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.shared.intermediate =
      config.integer({"n_shared_experts"}, 0, {0, kMostExperts}) * sizes.intermediate;
  sizes.intermediate = config.integer({"dense_intermediate_size"}, 0, kWidths);
  mixture.sparse = sparse_by_numbers(config, "moe_layer_freq", std::move(mixture.sparse));
  decoder.block_index = read_block_index(config, sizes.layers);
  return build(decoder);
}

ModelSpec make_hunyuan_v1_moe(const ConfigReader& config) {
  Decoder decoder{.family = "hunyuan_v1_moe"};
  read_common(config, decoder);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  decoder.names.q_norm = "query_layernorm";
  decoder.names.k_norm = "key_layernorm";
  MlpSpec missing{.intermediate = decoder.sizes.intermediate, .experts = 1};
  missing.experts_per_token = same_in_all(config, "moe_topk", 1, {1, kMostExperts});
  decoder.mixture = read_mixture(config, decoder.sizes.layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.sizes.shared.intermediate =
      same_in_all(config, "num_shared_expert", 1, {0, kMostExperts}) * missing.intermediate;
  mixture.names.router = {"mlp.gate.wg", "mlp.gate.wg"};
  mixture.names.shared = {"mlp.shared_mlp", "mlp.shared_mlp"};
  mixture.names.order = {MixturePart::router, MixturePart::experts, MixturePart::shared};
  mixture.shared_down_first = true;
  use_transformers_class(decoder);
  decoder.vllm.quantizes_router = true;
  ModelSpec spec = build(decoder);
  for (LayerSpec& layer : spec.layers) layer.attention.norm_order = NormOrder::after_rope;
  return spec;
}

}  // namespace plimsoll::model
