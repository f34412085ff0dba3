// Renumbers the weights of a spec after weights were split into several.
#pragma once

#include <vector>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// Renumbers the weight ids in the spec: weight i becomes now[i]. For models without recurrent
/// layers and several residuals.
void renumber(model::ModelSpec& spec, const std::vector<model::WeightId>& now);

}  // namespace plimsoll::shard
