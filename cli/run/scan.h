// A look at the whole input before anything is loaded.
#pragma once

#include "batch/runner.h"
#include "cli/run/options.h"
#include "files/input_file.h"

namespace plimsoll::cli {

/// Counts the lines of a regular input, settles the slice, and refuses what is no JSONL at all,
/// with the cure, and ids that occur twice under --strict. Throws Error(input_unusable, usage).
void scan(const RunOptions& options, files::InputFile& input, batch::RunnerOptions& runner);

}  // namespace plimsoll::cli
