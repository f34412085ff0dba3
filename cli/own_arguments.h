// Arguments of our own engine, from a launch's flags, the environment and this machine.
#pragma once

#include "cli/environment.h"
#include "launch/request.h"
#include "plan/own/arguments.h"

namespace plimsoll::cli {

/// Arguments of the flags, and of the environment's variables where flags are missing. Throws
/// Error(usage).
vllm::EngineArgs with_variables(const launch::LaunchRequest& flags, const Environment& environment);

/// Arguments of our own engine, with defaults of the environment and this machine for missing
/// flags. Throws Error(usage).
plan::own::Arguments own_arguments(const launch::LaunchRequest& flags,
                                   const Environment& environment);

}  // namespace plimsoll::cli
