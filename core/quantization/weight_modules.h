// The module that a weight of the table belongs to, as quantization configs name it.
#pragma once

#include "model/spec/weight.h"
#include "quantization/module_names.h"

namespace plimsoll::quantization {

/// Module of a weight, with the checkpoint's names of the matrices fused into it. For experts: the
/// module that holds them all.
ModuleName module_of_weight(const model::WeightSpec& weight);

/// Module of a layer's experts, with the checkpoint's names for an expert's matrices.
ModuleName module_of_experts(const model::WeightSpec& up, const model::WeightSpec& down);

}  // namespace plimsoll::quantization
