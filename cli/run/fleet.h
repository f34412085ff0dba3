// Processes of one run that mpirun or srun started: joining them, serving the first, ending
// together.
#pragma once

#include <memory>
#include <string>

#include "base/error.h"
#include "cli/environment.h"
#include "cli/run/device.h"
#include "cli/run/options.h"
#include "processes/fleet.h"

namespace plimsoll::cli {

/// Whether this is one of several processes that a launcher of MPI started for the same command,
/// and not the first: for commands that one process does. Parts (--part auto) are commands of their
/// own.
bool is_follower(const Environment& environment, const RunOptions& options = {});

/// Why as many processes as a launcher started cannot share the ranks of a copy; empty: they can.
std::string sharing_refusal(const vllm::EngineArgs& args, const MpiPlace& place);

/// The processes that share the ranks of a run; null: this one is alone. Throws Error(usage) where
/// the ranks do not divide among them.
std::unique_ptr<processes::Fleet> join_fleet(const RunOptions& options,
                                             const Environment& environment);

/// Processes that share the ranks of such a run, by what the launcher says.
int64_t sharing_processes(const RunOptions& options, const Environment& environment);

/// Chooses the device of a process of a fleet (null: it is alone), and how many tensor-parallel
/// ranks of a stage it has, which compute side by side. Throws Error(usage).
DeviceChoice choose_device(const RunOptions& options, const Environment& environment,
                           const processes::Fleet* fleet);

/// A process after the first, from its launch to its end.
int serve(RunOptions options, const Environment& environment, processes::Fleet& fleet);

/// In a handler of the first process: lets the others go, and throws what ended them all, else what
/// is handled.
[[noreturn]] void end_fleet(processes::Fleet& fleet);

}  // namespace plimsoll::cli
