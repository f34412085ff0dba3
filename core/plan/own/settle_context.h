// The context of --max-model-len auto.
#pragma once

#include <vector>

#include "plan/own/arguments.h"

namespace plimsoll::plan::own {

/// Sets `engine` to the longest context that fits, where --max-model-len auto asks for it and the
/// model's own context does not fit.
void settle_context(const model::ModelSpec& spec, const std::vector<engine::StageView>& stages,
                    const Arguments& arguments, const backend::Footprint& footprint,
                    engine::EngineOptions& engine);

}  // namespace plimsoll::plan::own
