// The memory of a launch of an engine other than vLLM and ours.
#pragma once

#include "base/config_view.h"
#include "engines/engine.h"
#include "hardware/gpu_catalogue.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

/// Plans one launch. Free memory that the question does not state is predicted, with bounds. A
/// launch that the engine refuses is a result. `advised`: what would hold more is tried, as it is
/// where the launch does not fit. Throws Error(usage, checkpoint_unusable).
PlanResult plan_engine(const engines::Engine& engine, const engines::Question& question,
                       const ConfigView& config, bool advised);

}  // namespace plimsoll::plan
