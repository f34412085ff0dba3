// Mixtures of experts in place of MLPs: how their weights are named and stored, and in which layers
// they stand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config_reader.h"
#include "model/model_spec.h"
#include "model/spec_builder.h"

namespace plimsoll::model {

/// How a checkpoint stores experts: E of them, I wide, on H inputs.
enum class ExpertsStored : uint8_t {
  apart,          // NAME.0.gate_proj.weight [I, H], ...
  stacked,        // gate, then up [E, 2 I, H]; down [E, H, I]
  stacked_apart,  // gate and up [E, I, H] each; down [E, H, I]
  transposed,     // gate, then up [E, H, 2 I]; down [E, I, H]
  in_turn,        // transposed, the gate in even columns, up in odd ones; with biases
  mxfp4,  // NAME_blocks [E, out, in / 32, 16], NAME_scales; gate and up, with biases, in turn
  flat,   // gate, up and down [E I, H] each, of which down is applied from its other side
};

/// A module's or tensor's name below the layer, in vLLM and in checkpoints.
struct MixtureName {
  std::string engine, stored;
};

enum class MixturePart : uint8_t {
  router,
  choice_bias,
  shared,
  latent,  // projections of experts that are narrower than the residual
  experts,
  router_scales,  // the router's norm and the experts' factors (Gemma 4)
  branch_norms    // on outputs of shared and of routed experts, and on inputs of routed ones
};

/// vLLM's usual name of the router's bias for the choice.
inline constexpr const char* kChoiceBias = "mlp.experts.routed_experts.e_score_correction_bias";

struct MixtureNames {
  MixtureName router{"mlp.gate", "mlp.gate"};
  MixtureName choice_bias{};  // none
  MixtureName experts{"mlp.experts.routed_experts", "mlp.experts"};
  ExpertNames expert{"gate_proj", "up_proj", "down_proj"};
  std::string up_weight = "w13_weight", down_weight = "w2_weight";  // below the experts, in vLLM
  MixtureName shared{"mlp.experts._shared_experts._layer", "mlp.shared_experts"};
  MixtureName shared_gate{};  // none
  MixtureName latent_in{}, latent_out{};
  /// Names within the shared MLP: gate and up as one where they are stored so.
  std::string shared_up = "gate_up_proj", shared_down = "down_proj";
  /// Parts in vLLM's order.
  std::vector<MixturePart> order{MixturePart::router, MixturePart::choice_bias, MixturePart::shared,
                                 MixturePart::latent, MixturePart::experts};
  /// Parts that stand behind the layer's norms (LayerPart::late_mlp).
  std::vector<MixturePart> late{};
};

/// Names in a module of Mixtral's kind, whose experts have `w1` for the gate, `w3` for the up and
/// `w2` for the down.
MixtureNames names_within(const std::string& module);
inline constexpr const char* kBlockMixture = "block_sparse_moe";

struct Mixture {
  MlpSpec sizes;             // numbers and rules; weights are added
  std::vector<bool> sparse;  // by layer: experts, else an MLP
  ExpertsStored stored = ExpertsStored::apart;
  bool shared_down_first = false;  // vLLM's Transformers classes
  bool shared_up_fused = false;    // the shared MLP's gate and up are stored as one
  bool router_bias = false, latent_bias = false;
  bool latent_norm = false;             // of what latent experts read, in vLLM alone (Kimi K3)
  std::optional<DType> router_dtype{};  // of the router in vLLM; none: the model's
  Norm norm{};                          // of branches and router, where they have their own
  int64_t bias_dimensions = 1;          // 2: the choice bias is stored [1, experts]
  int64_t bias_kinds = 1;               // biases of each expert: for text and for images
  /// Presence of the choice bias. Kept::in_run: a checkpoint may lack it, then it is zero.
  Kept bias_kept = Kept::in_model;
  Mapping bias_mapping = Mapping::none;
  int64_t hashed = 0;  // layers before this one choose by a table of tokens, without a bias
  bool bias_left_zero = false;  // with in_run: vLLM has a parameter that its loader never fills
  bool described = false;       // ConfigReader::describes: the first expert's parts stand for all
  MixtureNames names{};
};

/// Adds parts of a layer's mixture to `mlp`, which is Mixture::sizes at first; `prefix` is the
/// layer's, with a dot.
void add_mixture(ModelSpec& spec, const std::string& prefix, const Mixture& mixture,
                 const std::vector<MixturePart>& parts, MlpSpec& mlp);

// ---- which layers ----

using Sparse = std::vector<bool>;
Sparse sparse_from(int64_t layers, int64_t first);
/// Layers with experts: every `step`th, the last of each step.
Sparse sparse_every(int64_t layers, int64_t step);
/// Layers with experts as DeepSeek has them: after `first_k_dense_replace` dense ones (else
/// `dense`) every `moe_layer_freq`th.
Sparse sparse_after_dense(const ConfigReader& config, int64_t layers, int64_t dense);
/// Layers with experts by `key`'s list of "sparse" and "dense", else `otherwise`.
Sparse sparse_by_types(const ConfigReader& config, std::string_view key, Sparse otherwise);
/// Layers with experts by `key`'s list of 1 and 0, else `otherwise`.
Sparse sparse_by_numbers(const ConfigReader& config, std::string_view key, Sparse otherwise);

// ---- what configs state ----

/// Reads the number of experts, experts for each token and their width, under any of the field's
/// names; `missing` has the defaults.
Mixture read_mixture(const ConfigReader& config, int64_t layers, const MlpSpec& missing);

/// Sets DeepSeek-V3's router: sigmoid, a bias for the choice, groups by their two best, weights
/// divided by their sum and times `routed_scaling_factor`.
void use_deepseek_router(const ConfigReader& config, Mixture& mixture);

/// Reads `n_group` groups of which `topk_group` are chosen, where there is more than one.
void read_groups(const ConfigReader& config, Mixture& mixture, GroupScore score);

}  // namespace plimsoll::model
