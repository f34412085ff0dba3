// Checks that the files that a run reads and writes are distinct, before any is written.
#pragma once

#include "cli/environment.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

/// Throws Error(usage) when a file to be written is another file that the run uses, by device and
/// inode; Error(output_unwritable) when its folder is missing.
void check_files(const RunOptions& options, const Environment& environment);
/// As check_files, for the files of --merge.
void check_merge_files(const RunOptions& options);

}  // namespace plimsoll::cli
