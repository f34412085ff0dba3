// Messages of a run to people.
#pragma once

#include "batch/files/run_files.h"
#include "batch/progress.h"
#include "batch/report.h"
#include "cli/environment.h"
#include "cli/run/options.h"

namespace plimsoll::cli {

batch::ProgressMode progress_mode(const RunOptions& options, const Environment& environment);
/// Prints notes on flags that were given and have no effect.
void note_unused(const RunOptions& options);
void tell_resumed(const RunOptions& options, const batch::RunFiles& files);
/// Says that this run was completed by an earlier process.
void tell_finished(const RunOptions& options, const batch::Manifest& manifest);
void tell_end(const RunOptions& options, const batch::RunReport& report,
              const batch::RunFiles& files);

}  // namespace plimsoll::cli
