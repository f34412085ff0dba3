// How a release lays out the weights of any model.
#pragma once

#include <string>

#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// Sets what decides a rank's experts and adapters: ranks, release and card.
void set_rules(const ShapeOptions& options, const std::string& architecture, RankWeights& weights);

}  // namespace plimsoll::vllm
