// Towers that core/model describes, counted by their weight tables.
#pragma once

#include <vector>

#include "model/spec/weight.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// Counts a tower's weights into Part::vision, linear layers in the schemes of their modules.
/// `sizes` are of the whole tower, for activations.
void add_described_tower(const std::vector<model::WeightSpec>& table, TowerShape sizes,
                         Builder& build);

}  // namespace plimsoll::vllm
