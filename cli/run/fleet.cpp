#include "cli/run/fleet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "cli/failure.h"
#include "cli/run/account.h"
#include "cli/run/launch.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "processes/mpi_library.h"

namespace plimsoll::cli {
namespace {

using namespace std::chrono_literals;

/// A launcher ends all processes when one has failed: time for the first one to say why.
constexpr auto kFirstSpeaks = 300ms;
/// Time after which a process that has failed leaves by itself, where process 0 has not answered.
constexpr auto kAnswer = 10s;
/// Numbers of processes that a refusal names.
constexpr int64_t kMostNamed = 64;

int64_t ranks_of_replica(const vllm::EngineArgs& args) {
  return args.tensor_parallel * args.pipeline_parallel;
}

// True when a launcher of MPI started several processes and they run together. Parts are runs of
// their own unless they have ranks to share.
bool is_shared(const RunOptions& options, const Environment& environment) {
  if (!environment.mpi || environment.mpi->count == 1) return false;
  if (!options.wanted_part) return true;
  return !options.wanted_part->automatic && ranks_of_replica(options.launch.args) > 1;
}

[[noreturn]] void leave_quietly(ExitCode code) {
  std::this_thread::sleep_for(kFirstSpeaks);
  _exit(static_cast<int>(code));
}

void check_ranks(const RunOptions& options, const MpiPlace& place) {
  const std::string refusal = sharing_refusal(options.launch.args, place);
  if (refusal.empty()) return;
  if (place.process > 0) leave_quietly(ExitCode::usage);  // the first one says it
  throw Error(ExitCode::usage, refusal);
}

// Folders with plug-ins for MPI, by the program's own: where it is built, and where it is
// installed.
std::vector<std::string> plugin_folders() {
  std::error_code ignored;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::filesystem::path folder = program.parent_path();
  return {folder.string(), (folder.parent_path() / "lib/plimsoll").string()};
}

// Plug-ins for the MPI whose launcher started this process; where that is not known both, the
// likelier first.
std::vector<std::string> plugins(const MpiPlace& place) {
  const char* const openmpi = "plimsoll_openmpi.so";
  const char* const mpich = "plimsoll_mpich.so";
  if (place.open_mpi) return {openmpi};
  if (place.variable.starts_with("PMI_")) return {mpich, openmpi};
  return {openmpi, mpich};
}

// Throws where the MPI library finds another number of processes than the launcher's variables: a
// library that does not understand the launcher takes its process for the only one.
void check_count(processes::Fleet& fleet, const MpiPlace& place) {
  const int64_t count = fleet.count();
  if (count == place.count) return;
  if (count == 1) fleet.end_idle();
  fail(ExitCode::usage,
       "{} is {}, but the MPI library that could be opened finds {} process{}: it is not the "
       "launcher's, or was built without its protocol (Open MPI: mpirun, srun --mpi=pmix; MPICH: "
       "mpiexec.mpich, srun --mpi=pmi2)",
       place.variable, place.count, count, count == 1 ? "" : "es");
}

// Ends this process with the fault's text and code. A thread of the fleet calls it where the others
// have not ended by themselves.
void leave_first(processes::Fleet& fleet, const processes::Fault& fault) {
  say(fault.text);
  fleet.shut_down(fault.code);
  _exit(static_cast<int>(fault.code));
}

[[noreturn]] void leave_failed(processes::Fleet& fleet, const Failure& failure) {
  if (!fleet.fault()) fleet.report(failure.code, failure.text);
  const auto end = std::chrono::steady_clock::now() + kAnswer;
  while (!fleet.fault() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(5ms);
  }
  leave_quietly(fleet.fault() ? fleet.fault()->code : failure.code);
}

CardPlace place_of(const processes::Fleet& fleet) {
  CardPlace place{.processes = fleet.count(), .near = 0};
  for (int64_t process = 0; process < fleet.count(); ++process) {
    if (!fleet.same_node(process)) continue;
    if (process < fleet.process()) ++place.index;
    ++place.near;
  }
  return place;
}

bool is_let_go(processes::Fleet& fleet) {
  const auto fault = fleet.fault();
  return fault && fault->code == ExitCode::done;
}

}  // namespace

std::string sharing_refusal(const vllm::EngineArgs& args, const MpiPlace& place) {
  const int64_t ranks = ranks_of_replica(args);
  if (ranks % place.count == 0) return "";
  std::vector<int64_t> fitting;
  for (int64_t count = 1; count <= std::min(ranks, kMostNamed); ++count) {
    if (ranks % count == 0) fitting.push_back(count);
  }
  return fmt::format(
      "{} is {}: {} processes cannot share the {} of -tp {} and -pp {}{}; {} would do, and "
      "--part auto makes each a run of its own",
      place.variable, place.count, place.count,
      ranks == 1 ? "one rank" : fmt::format("{} ranks", ranks), args.tensor_parallel,
      args.pipeline_parallel, args.data_parallel > 1 ? " (each has a share of all -dp copies)" : "",
      fmt::join(fitting, ", "));
}

bool is_follower(const Environment& environment, const RunOptions& options) {
  return is_shared(options, environment) && environment.mpi->process > 0;
}

std::unique_ptr<processes::Fleet> join_fleet(const RunOptions& options,
                                             const Environment& environment) {
  if (!is_shared(options, environment)) return nullptr;
  const MpiPlace& place = *environment.mpi;
  check_ranks(options, place);
  const auto leave = [](processes::Fleet& fleet, const processes::Fault& fault) {
    if (fleet.process() == 0) return leave_first(fleet, fault);
    leave_quietly(fault.code);
  };
  try {
    auto fleet = std::make_unique<processes::Fleet>(
        processes::open_mpi(plugin_folders(), plugins(place)), leave);
    check_count(*fleet, place);
    return fleet;
  } catch (const Error& error) {
    if (!place.first_of_machine) leave_quietly(error.code());
    throw;
  }
}

int64_t sharing_processes(const RunOptions& options, const Environment& environment) {
  return is_shared(options, environment) ? environment.mpi->count : 1;
}

DeviceChoice choose_device(const RunOptions& options, const Environment& environment,
                           const processes::Fleet* fleet) {
  if (fleet == nullptr) return choose_device(options, environment, CardPlace{});
  DeviceChoice device = choose_device(options, environment, place_of(*fleet));
  if (device.card && device.nccl_shape.is_used() && device.ranks_per_card > 1) {
    fail(ExitCode::usage,
         "PLIMSOLL_RANKS_PER_DEVICE={}: ranks of several processes talk over NCCL, which takes one "
         "of them on a GPU",
         device.ranks_per_card);
  }
  const vllm::EngineArgs& args = options.launch.args;
  device.tensor_ranks = std::min(args.tensor_parallel, ranks_of_replica(args) / fleet->count());
  return device;
}

int serve(RunOptions options, const Environment& environment, processes::Fleet& fleet) {
  options.quiet = true;
  options.skip_tokenizer_init = true;  // prompts and answers are the first one's
  install_signal_handlers();           // process 0 decides when to stop
  std::unique_ptr<Launch> launched;    // outlives messages on their way
  try {
    DeviceChoice device = choose_device(options, environment, &fleet);
    launched = launch(options, environment, std::move(device), InputQuestions{}, &fleet);
    launched->server->serve();
    fleet.send_account(account_of_server(*launched, fleet));
    fleet.end();
    return 0;
  } catch (const std::exception&) {
    if (!is_let_go(fleet)) leave_failed(fleet, failure_in_hand());
    fleet.end_idle();  // all was done before
    return 0;
  }
}

void end_fleet(processes::Fleet& fleet) {
  const auto fault = fleet.fault();
  fleet.shut_down(fault ? fault->code : failure_in_hand().code);
  try {
    throw;
  } catch (const engine::RankLost&) {
    if (fault) throw Error(fault->code, fault->text);
    throw;
  }
}

}  // namespace plimsoll::cli
