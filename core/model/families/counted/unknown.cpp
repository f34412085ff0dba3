// Mixtures of experts of architectures that are not known, read as Llama with experts under any of
// the names that configs have for their numbers.
#include <algorithm>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

Sparse read_any_sparse(const ConfigReader& config, int64_t layers) {
  constexpr const char* kSteps = "moe_layer_freq";
  const Json* steps = config.find({kSteps});
  const bool listed = steps != nullptr && steps->is_array();
  Sparse sparse = sparse_every(
      layers, config.integer({listed ? "decoder_sparse_step" : kSteps, "decoder_sparse_step"}, 1,
                             {1, 4096}));
  const int64_t dense =
      config.integer({"first_k_dense_replace", "num_dense_layers"}, 0, {.least = 0});
  std::fill_n(sparse.begin(), std::min(dense, layers), false);
  const auto without = read_layer_list(config, "mlp_only_layers", layers);
  for (size_t i = 0; without && i < sparse.size(); ++i) sparse[i] = sparse[i] && !(*without)[i];
  if (listed) sparse = sparse_by_numbers(config, kSteps, std::move(sparse));
  return sparse_by_types(config, "mlp_layer_types", std::move(sparse));
}

Mixture read_experts(const ConfigReader& config, const Sizes& sizes) {
  constexpr IntegerRange kCounts{0, kMostExperts};
  MlpSpec missing;
  missing.experts = config.integer({"num_routed_experts", "n_experts"}, 0, kCounts);
  missing.experts_per_token = config.integer(
      {"num_experts_per_token", "moe_topk", "moe_top_k", "experts_per_token"}, 1, kCounts);
  missing.intermediate =
      config.integer({"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size"},
                     sizes.intermediate, kWidths);
  Mixture mixture = read_mixture(config, sizes.layers, missing);
  const int64_t shared = config.integer(
      {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, 0, kCounts);
  mixture.sizes.shared.intermediate =
      config.integer({"moe_shared_expert_intermediate_size", "share_expert_dim",
                      "shared_expert_intermediate_size"},
                     shared * missing.intermediate, {.least = 0});
  mixture.sparse = read_any_sparse(config, sizes.layers);
  return mixture;
}

}  // namespace

ModelSpec make_unknown_mixture(const ConfigReader& config) {
  Decoder decoder{.family = "a mixture"};
  read_with_columns(config, decoder);
  Sizes& sizes = decoder.sizes;
  constexpr const char* kKvHeads = "num_kv_heads";
  sizes.kv_heads = config.integer({"num_key_value_heads", kKvHeads, "num_attention_groups"},
                                  sizes.kv_heads, kHeadCounts);
  require_even_groups(config, kKvHeads, sizes.heads, sizes.kv_heads);
  const int64_t values = config.integer({"v_head_dim"}, 0, {.least = 0});
  decoder.heads.assign(static_cast<size_t>(sizes.layers), {.heads = sizes.heads,
                                                           .kv_heads = sizes.kv_heads,
                                                           .head_dim = sizes.head_dim,
                                                           .value_dim = values});
  decoder.windows =
      read_windows(config, sizes.layers, config.integer({"sliding_window"}, 0, {.least = 0}),
                   [](int64_t) { return false; });
  decoder.ropes.push_back(read_rope(config, {.head_dim = sizes.head_dim,
                                             .max_position = sizes.max_position,
                                             .layer_type = "sliding_attention"}));
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.mixture = read_experts(config, sizes);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

}  // namespace plimsoll::model
