// The context that --max-model-len auto launches.
#pragma once

#include "launch/resolve.h"

namespace plimsoll::launch {

/// Gives the launch the longest context that fits its memory budget, where --max-model-len auto
/// asks for it and the model's own does not fit.
void resolve_context(const Arguments& arguments, const backend::Footprint& footprint,
                     ResolvedLaunch& launch);

}  // namespace plimsoll::launch
