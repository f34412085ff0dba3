// Roles of the weights of a described model. Internal to this folder.
#pragma once

#include <optional>
#include <vector>

#include "model/model_spec.h"
#include "vllm/shapes/rank_weights.h"

namespace plimsoll::vllm {

/// How vLLM holds a weight.
enum class Form : uint8_t {
  layer,    // a linear layer's, in the scheme of its module
  exact,    // a linear layer's that no scheme changes (convolutions)
  numbers,  // no linear layer's: no adapter stands beside it
};

struct Role {
  Part part = Part::attention;
  Form form = Form::layer;
  const model::AttentionSpec* attention = nullptr;  // the attention whose heads cut it
  const model::MlpSpec* experts = nullptr;          // the experts whose stacks begin with it
  bool gate_and_up = false;                         // of an MLP
  bool narrow = false;                              // a few outputs for each head, side by side
  const char* module = nullptr;  // module whose scheme vLLM uses, where it is not the weight's own
  bool last_whole = false;       // its last part is not cut
  int64_t row_multiple = 1;      // a rank's rows are padded to a multiple of so many
  bool indexer = false;          // keys of an indexer and weights of its heads
  bool router = false;
  bool down = false;    // of an MLP
  bool shared = false;  // of experts that see all tokens
};

/// The roles of a model's weights, by what its layers name. Borrows the spec.
class Roles {
 public:
  explicit Roles(const model::ModelSpec& spec);
  /// The role of a weight. A weight that no layer names has the part of the weight before it: vLLM
  /// alone has such weights, after those that they belong to.
  [[nodiscard]] Role of(model::WeightId id) const;

 private:
  void set(model::WeightId id, const Role& role);
  void add(const model::Linear& linear, const Role& role);
  void add(const model::Norm& norm, const Role& role);
  void add(const model::Adapter& adapter, const Role& role);
  void add(const model::LayerSpec& layer);
  void add(const model::AttentionSpec& attention);
  void add(const model::RecurrentSpec& mixer);
  void add(const model::MlpSpec& mlp);
  void add_experts(const model::MlpSpec& mlp);
  void add(const model::StreamLayer& streams);

  const model::ModelSpec& spec_;
  std::vector<std::optional<Role>> roles_;  // by id
};

}  // namespace plimsoll::vllm
