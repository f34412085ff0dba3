// Processes of one run that mpirun or srun started: joining them, serving process 0, ending
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

/// True when this is one of several processes that an MPI launcher started for one command, and not
/// process 0. For commands that one process does. Parts (--part auto) are commands of their own.
bool is_follower(const Environment& environment, const RunOptions& options = {});

/// Why as many processes as a launcher started cannot share the ranks of a copy; empty: they can.
std::string sharing_refusal(const vllm::EngineArgs& args, const MpiPlace& place);

/// Joins the processes that share the ranks of a run; null: this process is alone. Throws
/// Error(usage) where the ranks do not divide among them.
std::unique_ptr<processes::Fleet> join_fleet(const RunOptions& options,
                                             const Environment& environment);

/// Number of processes that share the ranks of such a run, by the launcher's variables.
int64_t sharing_processes(const RunOptions& options, const Environment& environment);

/// Chooses the device of a process of a fleet (null: it is alone), and how many tensor-parallel
/// ranks of a stage it has, which compute side by side. Throws Error(usage).
DeviceChoice choose_device(const RunOptions& options, const Environment& environment,
                           const processes::Fleet* fleet);

/// Runs a process other than 0, from its launch to its end. Returns its exit status.
int serve(RunOptions options, const Environment& environment, processes::Fleet& fleet);

/// Called in an exception handler of process 0: tells the other processes to exit, and throws the
/// fault that ended them all, else the exception that is handled.
[[noreturn]] void end_fleet(processes::Fleet& fleet);

}  // namespace plimsoll::cli
