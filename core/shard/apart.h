// Weights that `run` has fused and vLLM's class has not.
#pragma once

#include "model/model_spec.h"

namespace plimsoll::shard {

/// Gives the gates and ups of Laguna's MLPs, shared experts' too, a weight each as its class in
/// vLLM has them; other models stay as they are.
void set_apart(model::ModelSpec& spec);

}  // namespace plimsoll::shard
