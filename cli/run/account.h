// The account of a run: its report, its exit status, and checks that the figures agree.
#pragma once

#include "batch/files/run_files.h"
#include "batch/report.h"
#include "cli/run/launch.h"
#include "processes/fleet.h"

namespace plimsoll::cli {

/// Exit status of a command whose only trouble may be failed lines.
int status_of(uint64_t failed_lines);
/// Report of what ran and of the lines; `counts` decide the exit status.
batch::RunReport make_report(const RunOptions& options, const Launch& launch,
                             const batch::OrderChoice& order, batch::RunCounts counts);
/// Adds the engine's figures and the memory, planned and measured; to be called between steps. With
/// several processes it tells the others to exit, and collects the figures of their ranks; `fleet`
/// is null without other processes.
void add_measurements(const Launch& launch, processes::Fleet* fleet, batch::RunReport& report);
/// The text about its ranks that a process sends to process 0 when it has been told to exit.
std::string account_of_server(const Launch& launch, const processes::Fleet& fleet);
/// Writes the file of --report, where one is asked for. Throws Error(output_unwritable), which says
/// that nothing else is missing.
void write_report(const RunOptions& options, std::string_view text);
/// Checks that every line that came in went somewhere, and that every record is one of them. Throws
/// Error(bug).
void audit(const batch::RunCounts& counts, const batch::RunFiles& files);

}  // namespace plimsoll::cli
