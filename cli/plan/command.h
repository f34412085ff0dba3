// `plimsoll plan`: the memory of a launch before the launch.
#pragma once

#include "cli/cli11_names.h"
#include "cli/plan/options.h"
#include "plan/plan_result.h"

namespace plimsoll::cli {

/// Declares the subcommand. `options` must outlive the parsing.
CLI::App* add_plan_command(CLI::App& app, PlanOptions& options);

/// Refuses flags that ask for an answer which cannot be given, or say something about one that is
/// not asked for. Throws Error(usage).
void check_answers(const PlanOptions& options);

/// Makes a plan and prints it as asked. Throws Error.
plan::PlanResult show_plan(const PlanOptions& options);

/// Runs the command. Returns the exit status: done, or does_not_fit. Throws Error.
int plan_command(const PlanOptions& options);

}  // namespace plimsoll::cli
