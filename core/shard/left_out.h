// Tensors that a model computes with and that vLLM's loader skips silently, so that no shard holds
// them: Laguna's biases of the experts' choice.
#pragma once

#include <string>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::shard {

/// True when vLLM's loader skips the tensors of a weight of Kept::in_run; else it raises where a
/// checkpoint holds them.
bool is_passed_over(const model::ModelSpec& spec, const model::WeightSpec& weight);

/// Names in the checkpoint of all tensors that vLLM's loader skips.
std::vector<std::string> tensors_left_out(const model::ModelSpec& spec);

}  // namespace plimsoll::shard
