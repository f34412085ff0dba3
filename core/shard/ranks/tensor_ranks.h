// A model cut over tensor-parallel ranks.
#pragma once

#include <cstdint>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// The model's spec on each of `ranks` ranks of `run`. Throws as stage_models.
model::ModelSpec cut_for_run(const model::ModelSpec& spec, int64_t ranks);

}  // namespace plimsoll::shard
