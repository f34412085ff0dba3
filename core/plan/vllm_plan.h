// The memory of a launch of vLLM, for a stated version.
#pragma once

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

/// Plans one launch. Without a card there are sizes but no verdict. Throws Error(usage) for
/// arguments that vLLM refuses, Error(checkpoint_unusable) for a config that is no model.
PlanResult plan_vllm(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu);

}  // namespace plimsoll::plan
