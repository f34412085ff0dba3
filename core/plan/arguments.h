// The arguments of a planned launch, to paste.
#pragma once

#include "plan/plan_result.h"
#include "vllm/engine_args.h"

namespace plimsoll::plan {

/// Fills result.arguments with the arguments as the engine resolves them.
void add_arguments(PlanResult& result, const EngineArgs& args);

}  // namespace plimsoll::plan
