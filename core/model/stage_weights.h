// Which stage of vLLM's pipeline holds which weights of a model.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_spec.h"
#include "model/pipeline.h"

namespace plimsoll::model {

/// The layer that each weight belongs to, by the number in its name; -1: to none.
std::vector<int64_t> layers_of_weights(const ModelSpec& spec);

/// One of `count` stages.
struct StageOfMany {
  StageLayers layers;
  bool first = true;
  bool last = true;
  bool has_head = true;  // false: the stage has another module in the head's place
};

/// Weights of pipeline stages, by what vLLM's class knows of stages (VllmClass). Borrows the spec.
class StageWeights {
 public:
  explicit StageWeights(const ModelSpec& spec);
  [[nodiscard]] bool holds(WeightId id, const StageOfMany& stage) const;
  /// True for weights before the first layer's in vLLM's order: embeddings, and what is made of
  /// them.
  [[nodiscard]] bool is_before_layers(WeightId id) const { return id < first_of_layers_; }

 private:
  const ModelSpec& spec_;
  std::vector<int64_t> layer_of_;
  WeightId first_of_layers_ = 0;
};

}  // namespace plimsoll::model
