// What a launch of our own engine becomes: the one place that decides and refuses, for `plan`,
// `run --dry-run` and `run`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/footprint.h"
#include "engine/ranks/stage_layouts.h"
#include "launch/arguments.h"
#include "launch/model_source.h"
#include "shard/ranks/rank_model.h"

namespace plimsoll::launch {

/// A launch with all that does not depend on how much memory is free.
struct ResolvedLaunch {
  model::ModelSpec spec;
  DType dtype = DType::bf16;              // of weights and activations
  std::vector<shard::StageModel> stages;  // of each replica: what its ranks hold
  engine::EngineOptions engine;           // without the memory budget of cards
  std::shared_ptr<DraftSource> draft;     // what engine.draft points to; null: no draft model
  std::vector<std::string> notes;         // to tell the user

  /// The stages as the engine lays them out; they point into `stages`.
  [[nodiscard]] std::vector<engine::StageView> stage_views() const;
};

/// Resolves what is asked on a machine of such sizes. Throws Error(usage) for arguments, ranks and
/// sizes that our engine refuses, Error(checkpoint_unusable) for a model that it would not load.
ResolvedLaunch resolve(ModelSource& model, const Arguments& arguments,
                       const backend::Footprint& footprint);

}  // namespace plimsoll::launch
