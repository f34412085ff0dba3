// The memory of a launch of llama.cpp, whose buffers are known before it begins.
#pragma once

#include "engines/engine.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

/// Plans a launch over the question's cards, or on the host where it names none. Cards whose free
/// memory is 0 have what logs show. `advised`: what would fit is tried, as it is where the launch
/// does not. Throws Error(usage, checkpoint_unusable).
PlanResult plan_buffers(const engines::Engine& engine, const engines::Question& question,
                        bool advised);

}  // namespace plimsoll::plan
