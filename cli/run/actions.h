// Commands of `run` that do not run: --publish, --merge, --dry-run.
#pragma once

#include "cli/environment.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

/// --publish: publishes what an unfinished run has left. Returns the exit status; throws Error.
int publish_what_is_there(const RunOptions& options);
/// --merge: joins the outputs of parts to one. Returns the exit status; throws Error.
int merge(const RunOptions& options);
/// --dry-run: checks the input and plans the launch, on standard output. Returns the exit status;
/// throws Error.
int dry_run(const RunOptions& options, const Environment& environment);

}  // namespace plimsoll::cli
