// A weight table of which weights became several.
#pragma once

#include <vector>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// Gives what the spec names of weights their places in another table: weight i is now[i]. Of a
/// model without recurrent layers and several residuals.
void renumber(model::ModelSpec& spec, const std::vector<model::WeightId>& now);

}  // namespace plimsoll::shard
