// Splits weights that `run` fuses into the separate weights that vLLM's class has.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::shard {

/// Gives gates and ups of MLPs, shared experts' too, a weight each where vLLM's class keeps them
/// apart (VllmClass::gate_apart); other models are unchanged.
void set_apart(model::ModelSpec& spec);

}  // namespace plimsoll::shard
