// A model as one rank of a parallel launch holds it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// A pipeline stage as a tensor-parallel rank of `run` holds it; ranks of a stage are alike.
struct StageModel {
  /// The spec of the stage's layers. Weights keep their ids, have the rank's shapes, and say of how
  /// many ranks they are a share; weights of other stages have no elements. Only the first stage
  /// has a token table to look up in, only the last has a head; the vocabulary is the whole one.
  model::ModelSpec spec;
  int64_t first_layer = 0;
};

/// The stages in order; one stage of one rank is the model itself. Throws Error(usage) with
/// tensor_refusal(), where sizes do not divide as vLLM divides them, or a stage would have no
/// layer.
std::vector<StageModel> stage_models(const model::ModelSpec& spec, const Layout& layout);

/// Why `run` cannot cut the model over `ranks` tensor-parallel ranks, and the cure; empty: it can.
std::string tensor_refusal(const model::ModelSpec& spec, int64_t ranks);

}  // namespace plimsoll::shard
