// A launch's flags as our own engine is asked.
#pragma once

#include "cli/environment.h"
#include "launch/request.h"
#include "plan/own/arguments.h"

namespace plimsoll::cli {

/// The flags' arguments, and what the environment says where flags do not. Throws Error(usage).
vllm::EngineArgs with_variables(const launch::LaunchRequest& flags, const Environment& environment);

/// With what the environment and this machine say where flags do not. Throws Error(usage).
plan::own::Arguments own_arguments(const launch::LaunchRequest& flags,
                                   const Environment& environment);

}  // namespace plimsoll::cli
