// Pasted launches of engines other than vLLM.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/options.h"
#include "cli/plan/paste/pasted_launch.h"
#include "engines/engine.h"

namespace plimsoll::cli {

/// True when the word at `at` names a program or a module of another engine.
bool starts_other(const Words& words, size_t at);

/// Fills `launch` with what the program or module at `at` is given. False where the word names
/// none; `launch.refused` says it where the program has no plan.
bool take_other(const Words& words, size_t at, PastedLaunch& launch);

/// Fills `launch` with what the entrypoint of another engine's image is given.
bool take_other_image(const Words& words, PastedLaunch& launch);

/// A line of an engine other than vLLM: its words stand before the others, which win.
std::vector<std::string> expand_other_engine(const PastedLaunch& launch,
                                             const std::vector<std::string>& arguments,
                                             PlanOptions& options);

/// Plans as the last release that takes all of these flags, where they choose the release.
void choose_release(const engines::Engine& engine, const Words& words, PlanOptions& options);

}  // namespace plimsoll::cli
