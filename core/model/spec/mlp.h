// MLPs and mixtures of experts.
#pragma once

#include <cstdint>
#include <limits>

#include "model/spec/attention.h"

namespace plimsoll::model {

/// Experts of one layer at most.
inline constexpr int64_t kMostExperts = 4096;

/// What an expert's score is, of its router logit.
enum class RouterScore : uint8_t {
  softmax,  // over all experts; divided by the sum of the chosen it is a softmax over these alone
  sigmoid,
  sparsemixer,  // two experts; each one's softmax among the logits not far below it (Phi-3.5-MoE)
};

/// What a group of experts is worth: its best score, or the sum of its two best.
enum class GroupScore : uint8_t { best, two_best };

/// How router logits become chosen experts and their weights.
struct RouterSpec {
  Linear gate{};                     // [experts, hidden]
  WeightId choice_bias = kNoWeight;  // [experts]: on scores for the choice, never in a weight
  Norm norm{};  // of what the router reads in place of the experts' input: the residual
  float logits_factor = 1;
  int64_t identities = 0;  // outputs past the experts': one that is chosen returns its input
  WeightId expert_scale = kNoWeight;  // [experts]: of the weights, last of all
  RouterScore score = RouterScore::softmax;
  int64_t groups = 1;         // of equal size, one after the other;
  int64_t groups_chosen = 1;  // experts are chosen from the best so many of them
  GroupScore group_score = GroupScore::best;
  bool normalize = true;  // weights divided by max(their sum + epsilon, least_sum)
  float epsilon = 0;
  float least_sum = 0;
  float factor = 1;    // of the weights
  float nearness = 0;  // sparsemixer: largest (best - s) / max(|s|, best) that counts
};

/// Bounds of what a gated MLP multiplies; 0: none.
struct GateLimits {
  float gate = 0;  // from above, before the activation
  float up = 0;    // on both sides

  [[nodiscard]] bool any() const { return gate > 0 || up > 0; }
  /// The same, infinite where there is none.
  [[nodiscard]] GateLimits bounds() const {
    constexpr float kNone = std::numeric_limits<float>::infinity();
    return {.gate = gate > 0 ? gate : kNone, .up = up > 0 ? up : kNone};
  }
};

/// Where an expert's weight goes.
enum class ExpertWeighs : uint8_t { output, input };

/// An MLP that every token passes beside the experts.
struct SharedExperts {
  int64_t intermediate = 0;  // 0: there is none
  Linear up{}, down{};       // as MlpSpec's
  GateLimits limits{};
  Linear gate{};     // [1, hidden]: its output times the sigmoid of this (Qwen2-MoE)
  float factor = 1;  // of its output
  Norm out_norm{};   // of its output
};

enum class MlpKind : uint8_t { plain, gated, experts, none };

struct MlpSpec {
  MlpKind kind = MlpKind::gated;
  Activation activation = Activation::silu;
  /// xIELU in its place (Huang and Schlag 2024; plain MLPs): [alpha_p, alpha_n, beta, eps], as
  /// stored.
  WeightId xielu = kNoWeight;
  int64_t intermediate = 0;               // of one expert where there are experts
  float gate_factor = 1, out_factor = 1;  // before the activation; of all (Falcon-H1)
  /// Not 0: of a row's gates only what is above their mean and so many deviations, less that, goes
  /// on (Gemma 3n).
  float gate_deviations = 0;
  Linear up{};  // gated: [2 * intermediate, hidden], gate rows first; plain: [intermediate, hidden]
  Linear down{};  // [hidden, intermediate]
  // experts: up and down are [experts, ...] weights, their biases [experts, n]
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  GateLimits limits{};  // gpt-oss, Step 3.5
  float up_offset = 0;  // of experts: activation(gate) * (up + offset)
  bool gated = true;    // of experts, shared ones too; else activation(up) (Nemotron-H)
  ExpertWeighs weighs = ExpertWeighs::output;
  /// Not 0: experts read `latent_in` of the input, so wide, and `latent_out` [hidden, latent] is
  /// applied to their sum (Nemotron 3).
  int64_t latent = 0;
  Linear latent_in{}, latent_out{};
  Norm experts_norm{};      // experts read this of the residual, not the MLP's input (Gemma 4);
  Norm experts_out_norm{};  // and this is of their sum
  RouterSpec router{};
  SharedExperts shared{};

  /// Inputs of one expert, and outputs of its `down`.
  [[nodiscard]] int64_t expert_width(int64_t hidden) const { return latent > 0 ? latent : hidden; }
  /// Outputs of one expert's `up`.
  [[nodiscard]] int64_t up_rows() const { return (gated ? 2 : 1) * intermediate; }
};

}  // namespace plimsoll::model
