// The arguments of a planned launch, to paste.
#pragma once

#include "plan/plan_result.h"
#include "vllm/engine_args.h"

namespace plimsoll::plan {

/// As the engine resolves them: fills result.arguments.
void add_arguments(PlanResult& result, const EngineArgs& args);

}  // namespace plimsoll::plan
