// A config's model as launches of our own engine keep its weights.
#pragma once

#include <optional>
#include <string>

#include "base/config_view.h"
#include "plan/own/arguments.h"

namespace plimsoll::plan::own {

/// The config's model. Throws Error(checkpoint_unusable, usage), naming vLLM's plan where that
/// knows the model.
model::ModelSpec read_spec(const ConfigView& config, const EngineArgs& args);

/// One model for all plans of a command: advice plans a launch dozens of times, and a large mixture
/// has a hundred thousand tensors. Of experts that are alike it keeps the tensors of the first.
class PlannedModel {
 public:
  /// `config` must outlive it.
  explicit PlannedModel(const ConfigView& config) : config_(config) {}

  /// The spec as `run` would launch it with these arguments. Throws Error(usage,
  /// checkpoint_unusable) where it would not launch.
  model::ModelSpec spec(const Arguments& arguments);

 private:
  /// The model as the checkpoint has it: nothing is quantised while it is loaded.
  struct Stored {
    std::shared_ptr<const StoredWeights> weights;
    checkpoint::Keeping keeping;
    model::ModelSpec spec;
    std::string method;  // of quantisation, as the config states it
  };
  const Stored& stored(const Arguments& arguments);

  const ConfigView& config_;
  std::optional<Stored> stored_;
};

}  // namespace plimsoll::plan::own
