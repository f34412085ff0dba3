// A head that config.json ties to the token table, and the same model with a head of its own.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::model {

/// Gives the model a head of its own, stored as `spec.tied_head` says, after its other weights.
void untie_head(ModelSpec& spec);

}  // namespace plimsoll::model
