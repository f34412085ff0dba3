// Mixtures of experts in place of MLPs: how their parts are called and stored, and in which layers
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
  latent,  // of experts that are narrower than the residual
  experts,
  router_scales,  // its norm and the experts' factors (Gemma 4)
  branch_norms    // of what shared and routed experts give, and of what the latter read
};

/// vLLM's usual name of the bias of the choice.
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
  /// Of the shared MLP: gate and up as one where they are stored so.
  std::string shared_up = "gate_up_proj", shared_down = "down_proj";
  /// vLLM's order.
  std::vector<MixturePart> order{MixturePart::router, MixturePart::choice_bias, MixturePart::shared,
                                 MixturePart::latent, MixturePart::experts};
  /// What comes behind the layer's norms (LayerPart::late_mlp).
  std::vector<MixturePart> late{};
};

struct Mixture {
  MlpSpec sizes;             // numbers and rules; weights are added
  std::vector<bool> sparse;  // by layer: experts, else an MLP
  ExpertsStored stored = ExpertsStored::apart;
  bool shared_down_first = false;  // vLLM's Transformers classes
  bool shared_up_fused = false;    // the shared MLP's gate and up are stored as one
  bool router_bias = false, latent_bias = false;
  std::optional<DType> router_dtype{};  // vLLM keeps the router in it
  Norm norm{};                          // of branches and router, where they have their own
  int64_t bias_dimensions = 1;          // 2: the choice bias is stored [1, experts]
  /// Of the choice bias. What `run` alone has may be absent from a checkpoint: zeros.
  Kept bias_kept = Kept::in_model;
  Mapping bias_mapping = Mapping::none;
  bool bias_left_zero = false;  // in_run: vLLM has a parameter that its loader never fills
  bool described = false;       // ConfigReader::describes: the first expert's parts do
  MixtureNames names{};
};

/// Adds parts of a layer's mixture to `mlp`, which is Mixture::sizes at first; `prefix` is the
/// layer's, with a dot.
void add_mixture(ModelSpec& spec, const std::string& prefix, const Mixture& mixture,
                 const std::vector<MixturePart>& parts, MlpSpec& mlp);

// ---- which layers ----

using Sparse = std::vector<bool>;
Sparse sparse_from(int64_t layers, int64_t first);
/// Every `step`th, the last of each step.
Sparse sparse_every(int64_t layers, int64_t step);
/// DeepSeek's: `first_k_dense_replace` dense ones (else `dense`), then every `moe_layer_freq`th.
Sparse sparse_after_dense(const ConfigReader& config, int64_t layers, int64_t dense);
/// `key`'s list of "sparse" and "dense", else `otherwise`.
Sparse sparse_by_types(const ConfigReader& config, std::string_view key, Sparse otherwise);

// ---- what configs state ----

/// Number of experts, experts for each token and their width, under any of the field's names;
/// `missing` where the config is silent.
Mixture read_mixture(const ConfigReader& config, int64_t layers, const MlpSpec& missing);

/// DeepSeek-V3's router: sigmoid, a bias for the choice, groups by their two best, weights divided
/// by their sum and times `routed_scaling_factor`.
void use_deepseek_router(const ConfigReader& config, Mixture& mixture);

/// `n_group` groups of which `topk_group` are chosen, where they are more than one.
void read_groups(const ConfigReader& config, Mixture& mixture, GroupScore score);

}  // namespace plimsoll::model
