// Weights that `run` has fused and vLLM's class has not.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::shard {

/// Gives gates and ups of MLPs, shared experts' too, a weight each where vLLM's class has them so
/// (VllmClass::gate_apart); other models stay as they are.
void set_apart(model::ModelSpec& spec);

}  // namespace plimsoll::shard
