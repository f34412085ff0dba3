// MLPs and mixtures of experts.
#pragma once

#include <cstdint>
#include <limits>

#include "model/spec/attention.h"

namespace plimsoll::model {

/// Most experts of one layer.
inline constexpr int64_t kMostExperts = 4096;

/// Function from an expert's router logit to its score.
enum class RouterScore : uint8_t {
  softmax,  // over all experts; divided by the sum of the chosen it is a softmax over these alone
  sigmoid,
  /// Two experts, each weighed by a softmax over the logits not far below its own (Phi-3.5-MoE).
  sparsemixer,
};

/// Score of a group of experts: its best score, or the sum of its two best.
enum class GroupScore : uint8_t { best, two_best };

/// How router logits become chosen experts and their weights.
struct RouterSpec {
  Linear gate{};                     // [experts, hidden]
  WeightId choice_bias = kNoWeight;  // [experts]: added to scores for the choice, never to a weight
  Norm norm{};  // norm of the residual, which the router reads in place of the experts' input
  float logits_factor = 1;
  int64_t identities = 0;             // outputs after the experts': such a choice returns its input
  WeightId expert_scale = kNoWeight;  // [experts]: factor of the weights, applied last
  RouterScore score = RouterScore::softmax;
  int64_t groups = 1;         // of equal size, one after the other
  int64_t groups_chosen = 1;  // experts are chosen from this many best groups
  GroupScore group_score = GroupScore::best;
  bool normalize = true;  // weights divided by max(their sum + epsilon, least_sum)
  float epsilon = 0;
  float least_sum = 0;
  float factor = 1;    // of the weights
  float nearness = 0;  // sparsemixer: largest (best - s) / max(|s|, best) that counts

  bool operator==(const RouterSpec&) const = default;
};

/// Bounds of the two factors of a gated MLP; 0: none.
struct GateLimits {
  float gate = 0;  // upper bound, before the activation
  float up = 0;    // bound of the absolute value

  [[nodiscard]] bool any() const { return gate > 0 || up > 0; }
  /// The bounds, infinite where there is none.
  [[nodiscard]] GateLimits bounds() const {
    constexpr float kNone = std::numeric_limits<float>::infinity();
    return {.gate = gate > 0 ? gate : kNone, .up = up > 0 ? up : kNone};
  }

  bool operator==(const GateLimits&) const = default;
};

/// Factor's place: an expert's weight is multiplied into its output or into its input.
enum class ExpertWeighs : uint8_t { output, input };

/// An MLP beside the experts that reads every token.
struct SharedExperts {
  int64_t intermediate = 0;  // 0: there is none
  Linear up{}, down{};       // as in MlpSpec
  GateLimits limits{};
  Linear gate{};     // [1, hidden]: the output is multiplied by its sigmoid (Qwen2-MoE)
  float factor = 1;  // of its output
  Norm out_norm{};   // of its output

  bool operator==(const SharedExperts&) const = default;
};

enum class MlpKind : uint8_t { plain, gated, experts, none };

struct MlpSpec {
  MlpKind kind = MlpKind::gated;
  Activation activation = Activation::silu;
  /// Parameters of xIELU in the activation's place (Huang and Schlag 2024; plain MLPs): [alpha_p,
  /// alpha_n, beta, eps], as stored.
  WeightId xielu = kNoWeight;
  int64_t intermediate = 0;  // of one expert where there are experts
  /// Factors of the gate before the activation, and of the output (Falcon-H1).
  float gate_factor = 1, out_factor = 1;
  /// Sparsity of the gates (Gemma 3n): a row keeps what its gates exceed mean + gate_deviations *
  /// standard deviation by; 0: not sparse.
  float gate_deviations = 0;
  Linear up{};  // gated: [2 * intermediate, hidden], gate rows first; plain: [intermediate, hidden]
  Linear down{};  // [hidden, intermediate]
  // experts: up and down are [experts, ...] weights, their biases [experts, n]
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  GateLimits limits{};  // gpt-oss, Step 3.5
  float up_offset = 0;  // experts: activation(gate) * (up + offset)
  bool gated = true;    // experts, shared ones too; false: activation(up) alone (Nemotron-H)
  ExpertWeighs weighs = ExpertWeighs::output;
  /// Width of the experts' inputs: they read `latent_in` [latent, hidden] of the input, and
  /// `latent_out` [hidden, latent] is applied to their sum (Nemotron 3); 0: they read the input.
  int64_t latent = 0;
  Linear latent_in{}, latent_out{};
  Norm experts_norm{};      // experts read this norm of the residual, not the MLP's input (Gemma 4)
  Norm experts_out_norm{};  // norm of the experts' sum (Gemma 4)
  RouterSpec router{};
  SharedExperts shared{};

  /// Width of an expert's input and output.
  [[nodiscard]] int64_t expert_width(int64_t hidden) const { return latent > 0 ? latent : hidden; }
  /// Rows of one expert's `up`.
  [[nodiscard]] int64_t up_rows() const { return (gated ? 2 : 1) * intermediate; }

  bool operator==(const MlpSpec&) const = default;
};

}  // namespace plimsoll::model
