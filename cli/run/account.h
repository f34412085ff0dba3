// The account of a run: its report, its exit status, and whether the figures agree.
#pragma once

#include "batch/files/run_files.h"
#include "batch/report.h"
#include "cli/run/launch.h"

namespace plimsoll::cli {

/// What ran and what became of the lines; `counts` decide the exit status.
batch::RunReport make_report(const RunOptions& options, const Launch& launch,
                             batch::RunCounts counts);
/// The engine's figures and the memory, planned and measured; between steps alone.
void add_measurements(const Launch& launch, batch::RunReport& report);
/// Every line that came in went somewhere, and every record is one of them. Throws Error(bug).
void audit(const batch::RunCounts& counts, const batch::RunFiles& files);

}  // namespace plimsoll::cli
