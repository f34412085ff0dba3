// A model as one rank of a parallel launch holds it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/model_spec.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// One rank's part of a pipeline stage; ranks of a stage are alike.
struct RankModel {
  /// The stage's layers, with this rank's heads, KV heads (whole ones, on several ranks where there
  /// are fewer than ranks), intermediate sizes and rows of the vocabulary. The weights keep their
  /// ids and have the rank's shapes.
  model::ModelSpec spec;
  std::vector<bool> present;  // by WeightId: whether the stage holds it
};

/// The stages in order. Throws Error(usage) where sizes do not divide, as vLLM does, or a stage
/// would have no layer.
std::vector<RankModel> rank_models(const model::ModelSpec& spec, const Layout& layout);

/// A pipeline stage as `run` holds it: all of its heads and rows of the vocabulary.
struct StageModel {
  /// The stage's layers. Its weights keep their ids; those of other stages have no elements. Only
  /// the first stage has a token table to look up in, only the last has a head.
  model::ModelSpec spec;
  int64_t first_layer = 0;
};

/// The stages in order, of one rank each; one stage is the model itself. Throws Error(usage) as
/// rank_models.
std::vector<StageModel> stage_models(const model::ModelSpec& spec, const Layout& layout);

}  // namespace plimsoll::shard
