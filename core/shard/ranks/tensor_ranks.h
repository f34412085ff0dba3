// A model cut over tensor-parallel ranks.
#pragma once

#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// A layer of `spec` as the weights of `rank` are, which are cut; what vLLM replicates stays whole.
/// Throws Error(usage) where the heads of a recurrent mixer do not divide.
void cut_layer(const model::ModelSpec& spec, int64_t ranks, const model::ModelSpec& rank,
               model::LayerSpec& layer);

/// The model as each of `ranks` ranks of `run` has it. Throws as stage_models.
model::ModelSpec cut_for_run(const model::ModelSpec& spec, int64_t ranks);

}  // namespace plimsoll::shard
