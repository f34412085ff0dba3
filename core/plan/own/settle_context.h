// The context that --max-model-len auto launches.
#pragma once

#include <vector>

#include "plan/own/arguments.h"

namespace plimsoll::plan::own {

/// Has `engine` launch with the longest context that fits where --max-model-len auto asks for it
/// and the model's does not.
void settle_context(const model::ModelSpec& spec, const std::vector<engine::StageView>& stages,
                    const Arguments& arguments, const backend::Footprint& footprint,
                    engine::EngineOptions& engine);

}  // namespace plimsoll::plan::own
