// `plimsoll run`: batch generation.
#pragma once

#include "cli/cli11_names.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

/// Declares the subcommand. `options` must outlive the parsing.
CLI::App* add_run_command(CLI::App& app, RunOptions& options);

/// Runs the command. Returns the exit status; throws Error and BrokenPipe.
int run_command(const RunOptions& options);

}  // namespace plimsoll::cli
