// The arguments of a planned launch, to paste.
#pragma once

#include "plan/engine_args.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

/// As the engine resolves them: fills result.arguments.
void add_arguments(PlanResult& result, const EngineArgs& args);

}  // namespace plimsoll::plan
