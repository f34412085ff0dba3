// What `run` does besides running.
#pragma once

#include "cli/environment.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

/// --publish: what an unfinished run has left gets its name. Returns the exit status; throws Error.
int publish_what_is_there(const RunOptions& options);
/// --merge: the outputs of parts become one; likewise.
int merge(const RunOptions& options);
/// --dry-run: the input checked and the launch planned, on standard output; likewise.
int dry_run(const RunOptions& options, const Environment& environment);

}  // namespace plimsoll::cli
