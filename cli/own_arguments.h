// Arguments of our own engine, from a launch's flags, the environment and this machine.
#pragma once

#include <memory>

#include "cli/environment.h"
#include "launch/arguments.h"
#include "launch/draft_source.h"
#include "launch/request.h"

namespace plimsoll::cli {

/// Arguments of the flags, and of the environment's variables where flags are missing. Throws
/// Error(usage).
vllm::EngineArgs with_variables(const launch::LaunchRequest& flags, const Environment& environment);

/// With what the environment and this machine say where flags do not. Throws Error(usage).
launch::Arguments own_arguments(const launch::LaunchRequest& flags, const Environment& environment);

/// The draft model that --speculative-config names, `weights` as of the large one (of plans, which
/// may name a lone config, if_present); null: it names none. Throws Error(checkpoint_unusable), or
/// Error(usage) where it is not there.
std::shared_ptr<launch::DraftSource> draft_source(const vllm::EngineArgs& args,
                                                  const Environment& environment,
                                                  launch::Weights weights);

}  // namespace plimsoll::cli
