// Reads the settings of mixtures of experts from configs.
#include <algorithm>

#include "base/error.h"
#include "model/decoder_config.h"
#include "model/mixture.h"

namespace plimsoll::model {

MixtureNames names_within(const std::string& module) {
  return {.router = {module + ".gate", module + ".gate"},
          .experts = {module + ".experts.routed_experts", module + ".experts"},
          .expert = {.gate = "w1", .up = "w3", .down = "w2"},
          .shared = {module + ".experts._shared_experts._layer", module + ".shared_experts"}};
}

Sparse sparse_from(int64_t layers, int64_t first) {
  Sparse sparse(static_cast<size_t>(layers));
  for (int64_t i = first; i < layers; ++i) sparse[static_cast<size_t>(i)] = true;
  return sparse;
}

Sparse sparse_every(int64_t layers, int64_t step) {
  Sparse sparse(static_cast<size_t>(layers));
  for (int64_t i = 0; i < layers; ++i) sparse[static_cast<size_t>(i)] = (i + 1) % step == 0;
  return sparse;
}

Sparse sparse_after_dense(const ConfigReader& config, int64_t layers, int64_t dense) {
  const int64_t step = config.integer({"moe_layer_freq"}, 1, {1, 4096});
  Sparse sparse =
      sparse_from(layers, config.integer({"first_k_dense_replace"}, dense, {.least = 0}));
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (static_cast<int64_t>(i) % step != 0) sparse[i] = false;
  }
  return sparse;
}

Sparse sparse_by_types(const ConfigReader& config, std::string_view key, Sparse otherwise) {
  return read_layer_types(config, key, std::ssize(otherwise), "sparse", "dense")
      .value_or(std::move(otherwise));
}

Sparse sparse_by_numbers(const ConfigReader& config, std::string_view key, Sparse otherwise) {
  const Json* list = config.find({key});
  if (list == nullptr) return otherwise;
  const bool fits = list->is_array() && std::ssize(*list) >= std::ssize(otherwise) &&
                    std::ranges::all_of(*list, [](const Json& n) { return n == 0 || n == 1; });
  if (!fits) config.refuse(key, fmt::format("a list of {} numbers from 0 to 1", otherwise.size()));
  std::transform(list->begin(), list->begin() + std::ssize(otherwise), otherwise.begin(),
                 [](const Json& n) { return n == 1; });
  return otherwise;
}

Mixture read_mixture(const ConfigReader& config, int64_t layers, const MlpSpec& missing) {
  constexpr int64_t kMostOfAll = int64_t{1} << 17;  // in all layers
  Mixture mixture;
  mixture.described = config.describes();
  MlpSpec& sizes = mixture.sizes;
  sizes.intermediate = missing.intermediate;
  const int64_t least = config.describes() ? 0 : 1;  // 0: no mixtures in a class that has them
  sizes.experts =
      config.integer({"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"},
                     missing.experts, {least, kMostExperts});
  if (sizes.experts == 0 && !config.describes()) config.refuse("num_experts", "a number from 1");
  const IntegerRange chosen{least, config.describes() ? kMostExperts : sizes.experts};
  sizes.experts_per_token = config.integer({"num_experts_per_tok", "moe_k", "top_k_experts"},
                                           missing.experts_per_token, chosen);
  if (sizes.experts * layers > kMostOfAll) {
    config.doubt("num_hidden_layers", fmt::format("at most {} experts in all layers", kMostOfAll));
  }
  if (sizes.experts_per_token > sizes.experts) {
    config.doubt("num_experts_per_tok", fmt::format("at most the experts ({})", sizes.experts));
  }
  mixture.sparse.assign(static_cast<size_t>(layers), true);
  return mixture;
}

void read_groups(const ConfigReader& config, Mixture& mixture, GroupScore score) {
  if (config.describes()) return;
  RouterSpec& router = mixture.sizes.router;
  const int64_t experts = mixture.sizes.experts;
  router.groups = config.integer({"n_group"}, 1, {1, experts});
  router.groups_chosen = config.integer({"topk_group"}, 1, {1, router.groups});
  router.group_score = score;
  if (experts % router.groups != 0) {
    config.refuse("n_group", fmt::format("a divisor of the experts ({})", experts));
  }
  if (experts / router.groups * router.groups_chosen < mixture.sizes.experts_per_token) {
    config.refuse("topk_group", fmt::format("groups that hold {} experts or more",
                                            mixture.sizes.experts_per_token));
  }
}

void use_deepseek_router(const ConfigReader& config, Mixture& mixture) {
  RouterSpec& router = mixture.sizes.router;
  router.score = RouterScore::sigmoid;
  router.normalize = config.boolean({"norm_topk_prob"}, true);
  router.epsilon = 1e-20f;
  router.factor = static_cast<float>(config.positive({"routed_scaling_factor"}, 1));
  read_groups(config, mixture, GroupScore::two_best);
}

}  // namespace plimsoll::model
