// Routers whose choices the CPU's and the device's tests compare with the twin.
#pragma once

#include <vector>

#include "model/model_spec.h"

namespace plimsoll::testing {

struct RouterCase {
  const char* name;
  int64_t experts, chosen;
  model::RouterSpec router;
  bool has_bias = false;
};

inline std::vector<RouterCase> router_cases() {
  using model::GroupScore;
  using model::RouterScore;
  return {
      {"softmax", 60, 4, {.normalize = false}},
      {"softmax over the chosen, times a factor", 33, 32, {.factor = 0.5f}},
      {"one expert", 1, 1, {}},
      {"many experts", 512, 10, {}},
      {"sigmoid, the sum padded", 8, 2, {.score = RouterScore::sigmoid, .epsilon = 0.25f}},
      {"sigmoid alone", 16, 1, {.score = RouterScore::sigmoid, .normalize = false}},
      {"a bias for the choice",
       24,
       3,
       {.score = RouterScore::sigmoid, .epsilon = 1e-20f, .factor = 2.5f},
       true},
      {"softmax with a bias and a least sum", 24, 3, {.least_sum = 0.4f}, true},
      {"best groups by their best",
       24,
       4,
       {.groups = 8, .groups_chosen = 3, .normalize = false, .factor = 16}},
      {"best groups by their two best",
       32,
       6,
       {.score = RouterScore::sigmoid,
        .groups = 4,
        .groups_chosen = 2,
        .group_score = GroupScore::two_best},
       true},
      {"groups of one",
       6,
       2,
       {.groups = 6, .groups_chosen = 3, .group_score = GroupScore::two_best}},
      {"sparsemixer", 16, 2, {.score = RouterScore::sparsemixer, .nearness = 0.4f}},
      {"sparsemixer, one choice",
       9,
       1,
       {.score = RouterScore::sparsemixer, .factor = 2, .nearness = 0.02f}},
  };
}

/// Mixtures whose sums these tests compare; with identities, some choices are past the experts and
/// return their input.
struct MixtureCase {
  const char* name;
  model::MlpSpec mlp;
  bool has_biases = false;
};

inline std::vector<MixtureCase> mixture_cases(int64_t experts, int64_t chosen, int64_t width) {
  const auto mixture = [&](model::MlpSpec mlp) {
    mlp.kind = model::MlpKind::experts;
    mlp.intermediate = width;
    mlp.experts = experts;
    mlp.experts_per_token = chosen;
    return mlp;
  };
  const auto with_identities = [](model::MlpSpec mlp) {
    mlp.router.identities = 2;
    return mlp;
  };
  return {
      {"plain", mixture({})},
      {"tanh GELU", mixture({.activation = model::Activation::gelu_tanh})},
      {"weights on the input", mixture({.weighs = model::ExpertWeighs::input})},
      {"biases", mixture({}), true},
      {"limits, an offset and biases",
       mixture(
           {.activation = model::Activation::gelu_quick, .limits = {0.7f, 0.7f}, .up_offset = 1}),
       true},
      {"limits alone", mixture({.limits = {0.5f, 0.5f}})},
      {"limits that differ", mixture({.limits = {0.3f, 0.6f}})},
      {"without gates", mixture({.activation = model::Activation::relu_squared, .gated = false})},
      {"identities", with_identities(mixture({}))},
      {"identities beside limits and biases", with_identities(mixture({.limits = {0.5f, 0.5f}})),
       true},
  };
}

}  // namespace plimsoll::testing
