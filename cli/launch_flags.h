// Flags of a launch, equal for `run` and `plan`: a plan line becomes a run line by changing one
// word.
#pragma once

#include "cli/cli11_names.h"
#include "launch/request.h"

namespace plimsoll::cli {

/// Declares a flag for every parameter, in their groups. `request` must outlive the parsing.
void declare_launch_flags(CLI::App& command, launch::LaunchRequest& request);

}  // namespace plimsoll::cli
