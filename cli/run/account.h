// The account of a run: its report, its exit status, and whether the figures agree.
#pragma once

#include "batch/files/run_files.h"
#include "batch/report.h"
#include "cli/run/launch.h"
#include "processes/fleet.h"

namespace plimsoll::cli {

/// Exit status where nothing but failed lines keeps a command from being done.
int status_of(uint64_t failed_lines);
/// What ran and what became of the lines; `counts` decide the exit status.
batch::RunReport make_report(const RunOptions& options, const Launch& launch,
                             batch::RunCounts counts);
/// The engine's figures and the memory, planned and measured; between steps alone.
/// Of several processes: lets the others go, which tell of their ranks; `fleet` is null where there
/// are none.
void add_measurements(const Launch& launch, processes::Fleet* fleet, batch::RunReport& report);
/// What a process that serves tells the first one, when it has been let go.
std::string account_of_server(const Launch& launch, const processes::Fleet& fleet);
/// Every line that came in went somewhere, and every record is one of them. Throws Error(bug).
void audit(const batch::RunCounts& counts, const batch::RunFiles& files);

}  // namespace plimsoll::cli
