#include "cli/run/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "base/size_text.h"
#include "cli/run/no_card.h"
#include "engine/schedule_shape.h"
#include "launch/arguments.h"
#include "launch/parameters.h"

namespace plimsoll::cli {

namespace {

/// Bytes of free memory by the driver that are left alone: other processes' needs move.
constexpr uint64_t kMargin = uint64_t{64} << 20;

int64_t ranks_of(const vllm::EngineArgs& args) {
  return args.tensor_parallel * args.pipeline_parallel * args.data_parallel;
}

/// True when a card cannot read the memory of another.
bool hides(const std::vector<backend::DeviceInfo>& cards) {
  for (const backend::DeviceInfo& own : cards) {
    for (const backend::DeviceInfo& other : cards) {
      if (other.index == own.index) continue;
      if (std::ranges::find(own.peers, other.index) == own.peers.end()) return true;
    }
  }
  return false;
}

// Sets the shape and the environment variable that keep NCCL within the memory that the plan counts
// for it.
void resolve_nccl(const vllm::EngineArgs& args, DeviceChoice& choice) {
  memory::NcclShape& shape = choice.nccl_shape;
  shape = memory::nccl_shape(args.tensor_parallel, args.pipeline_parallel, choice.place.processes);
  if (args.tensor_parallel > 1 && hides(choice.cards)) shape.team = args.tensor_parallel;
  if (!shape.is_used()) return;
  setenv("NCCL_MAX_P2P_NCHANNELS", std::to_string(memory::kNcclPointChannels).c_str(), 0);
}

}  // namespace

void take_cards(const vllm::EngineArgs& args, const std::vector<backend::DeviceInfo>& there,
                DeviceChoice& choice) {
  const CardPlace& place = choice.place;
  const int64_t wanted = divide_up(ranks_of(args) / place.processes, choice.ranks_per_card);
  const bool same = std::ssize(there) >= wanted * place.near;  // all see all cards of the machine
  if (!same && (place.near == 1 || std::ssize(there) != wanted)) {
    fail(ExitCode::usage,
         "-tp {} -pp {} -dp {} takes {} GPUs{}, there {} (CUDA_VISIBLE_DEVICES counts); --device "
         "cpu "
         "runs any width",
         args.tensor_parallel, args.pipeline_parallel, args.data_parallel, wanted,
         place.near == 1 ? "" : fmt::format(" in each of {} processes on a machine", place.near),
         there.size() == 1 ? "is 1" : fmt::format("are {}", there.size()));
  }
  const auto first = there.begin() + (same ? place.index * wanted : 0);
  choice.cards.assign(first, first + wanted);
  choice.card = choice.cards.front();
  for (const backend::DeviceInfo& card : choice.cards) {
    if (card.compute_capability == choice.card->compute_capability &&
        card.processors == choice.card->processors) {
      continue;
    }
    fail(ExitCode::usage,
         "GPU {} is a {}, GPU {} a {}: ranks take cards of one kind (CUDA_VISIBLE_DEVICES names "
         "them)",
         choice.card->index, choice.card->name, card.index, card.name);
  }
  resolve_nccl(args, choice);
}

void choose_card(const launch::LaunchRequest& flags, DeviceChoice& choice) {
  if (flags.device == "cpu") return;
  // The streams of ranks that wait for each other must not share one of the card's queues.
  if (choice.ranks_per_card > 1) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  const std::vector<backend::DeviceInfo> cards = backend::list_devices();
  if (!cards.empty()) return take_cards(flags.args, cards, choice);
  choice.why_no_card = why_no_card(find_card_trouble());
  if (flags.device != "cuda") return;
  const char* none = backend::kHasDeviceBackend ? "there is no card that this build has code for"
                                                : "this build has no CUDA backend";
  fail(ExitCode::usage, "--device cuda: {}; use --device cpu",
       choice.why_no_card.empty() ? none : choice.why_no_card);
}

bool kernels_may_overlap() {
  const char* value = std::getenv("PLIMSOLL_PDL");
  return value == nullptr || std::string_view(value) != "0";
}

std::unique_ptr<backend::Backend> make_backend(const launch::LaunchRequest& flags,
                                               const DeviceChoice& choice, int64_t rank) {
  if (!choice.card) {
    backend::CpuOptions cpu = choice.cpu;
    // Ranks of a stage compute side by side, as copies do.
    const int64_t tensor = choice.tensor_ranks.value_or(flags.args.tensor_parallel);
    cpu.threads = launch::threads_of_replica(cpu.threads, flags.args.data_parallel * tensor);
    return backend::make_cpu_backend(cpu);
  }
  const auto card = static_cast<size_t>(rank / choice.ranks_per_card);
  return backend::make_device_backend(
      {.index = choice.cards[card].index,
       .threads = launch::threads_of_replica(choice.cpu.threads,
                                             flags.args.tensor_parallel * flags.args.data_parallel),
       .deterministic = flags.deterministic,
       .overlap = choice.overlap,
       .hopper_from = choice.hopper_from,
       .nccl = choice.nccl});
}

CardBudget card_budget(const launch::LaunchRequest& flags, const backend::DeviceMemory& memory,
                       int64_t ranks) {
  CardBudget budget;
  launch::Arguments arguments;
  arguments.args = flags.args;
  arguments.ceiling = flags.gpu_memory.value_or(0);
  budget.ceiling =
      static_cast<uint64_t>(launch::budget_bytes(arguments, static_cast<int64_t>(memory.total))) /
      static_cast<uint64_t>(ranks);
  budget.outside = memory.outside;
  // The whole of `outside` is kept, though some of it is taken already: on the safe side.
  const uint64_t kept = memory.outside + kMargin;
  const uint64_t share = memory.free / static_cast<uint64_t>(ranks);
  const uint64_t free = share - std::min(share, kept);
  const uint64_t allowed = budget.ceiling - std::min(budget.ceiling, memory.outside);
  budget.arena = std::min(allowed, free);
  if (budget.arena == 0) {
    fail(ExitCode::does_not_fit,
         "the ceiling is {} of the card's {}, of which {} are free; the driver's context, kernels "
         "and graphs alone may take {} (--gpu-memory-utilization, --gpu-memory; other processes on "
         "the card)",
         size_text(budget.ceiling), size_text(memory.total), size_text(memory.free),
         size_text(memory.outside));
  }
  return budget;
}

namespace {

// The card's memory matters to a run on one alone.
std::vector<std::string> apply_cpu(const launch::LaunchRequest& flags,
                                   engine::EngineOptions& engine) {
  std::vector<std::string> notes;
  const std::vector<std::string> for_cards = launch::given_for_cards(flags);
  if (!for_cards.empty())
    notes.push_back(fmt::format("{}: without effect on the CPU", fmt::join(for_cards, ", ")));
  engine.capture_sizes.reset();
  engine.head_start = engine::kHostHeadStart;
  return notes;
}

// Memory of the stage that needs most outside its arena.
backend::DeviceMemory memory_of(const backend::Backend& backend,
                                const std::vector<engine::StageView>& stages, int64_t graphs,
                                const memory::NcclShape& nccl) {
  backend::DeviceMemory most;
  for (const engine::StageView& stage : stages) {
    const backend::DeviceMemory memory = backend::device_memory(backend, *stage.spec, graphs, nccl);
    if (memory.outside >= most.outside) most = memory;
  }
  return most;
}

// What the cards give a launch: the tightest for all ranks alike.
void budget_cards(const launch::LaunchRequest& flags, const DeviceChoice& choice,
                  const RankBackends& backends, engine::Processes* processes,
                  launch::ResolvedLaunch& launch, DeviceSetup& setup) {
  // How many sizes are recorded does not depend on the pool: this one has room for everything.
  engine::EngineOptions roomy = launch.engine;
  roomy.kv_cache_bytes = uint64_t{1} << 60;
  roomy.num_kv_blocks.reset();
  roomy.kv_cache_memory.reset();
  roomy.memory_budget.reset();
  const std::vector<engine::StageView> stages = launch.stage_views();
  setup.graphs = 0;
  if (stages.size() == 1) {
    const model::ModelSpec& spec = *stages.front().spec;
    setup.graphs =
        std::ssize(engine::plan_engine(spec, roomy, backends.front()->footprint()).recorded_sizes);
  }
  std::optional<uint64_t> tightest;
  for (const backend::Backend* backend : backends) {
    const backend::DeviceMemory memory =
        memory_of(*backend, stages, setup.graphs, choice.nccl_shape);
    const CardBudget budget = card_budget(flags, memory, choice.ranks_per_card);
    if (tightest && *tightest <= budget.arena) continue;
    tightest = budget.arena;
    setup.at_start = memory;
    setup.budget = budget;
  }
  if (processes != nullptr) setup.budget.arena = processes->least(setup.budget.arena);
  launch.engine.memory_budget = setup.budget.arena;
}

}  // namespace

DeviceSetup apply_device(const launch::LaunchRequest& flags, const DeviceChoice& choice,
                         const RankBackends& backends, engine::Processes* processes,
                         const std::function<void()>& settle_limits,
                         launch::ResolvedLaunch& launch) {
  DeviceSetup setup;
  if (choice.card) {
    budget_cards(flags, choice, backends, processes, launch, setup);
  } else {
    setup.notes = apply_cpu(flags, launch.engine);
    if (!choice.why_no_card.empty()) {
      setup.notes.push_back("running on the CPU: " + choice.why_no_card);
    }
  }
  if (settle_limits) {
    settle_limits();
    if (choice.card) budget_cards(flags, choice, backends, processes, launch, setup);
  }
  if (!choice.card) return setup;
  const uint64_t allowed = setup.budget.ceiling - setup.budget.outside;
  if (setup.budget.arena < allowed) {
    setup.notes.push_back(
        fmt::format("{} of the card's {} are free: the launch takes {} in place of {}",
                    size_text(setup.at_start.free), size_text(setup.at_start.total),
                    size_text(setup.budget.arena), size_text(allowed)));
  }
  return setup;
}

void check_ceiling(const DeviceSetup& setup, const backend::DeviceMemory& launched, int64_t ranks) {
  const auto times = static_cast<uint64_t>(ranks);
  const CardBudget budget{setup.budget.ceiling * times, setup.budget.outside * times,
                          setup.budget.arena * times};
  if (launched.process <= budget.ceiling) return;
  fail(ExitCode::does_not_fit,
       "launched, the process has {} of the card, over its ceiling of {}: {} beside its arena of "
       "{}, where {} were planned; lower the ceiling by as much (--gpu-memory, "
       "--gpu-memory-utilization), and please report these figures",
       size_text(launched.process), size_text(budget.ceiling),
       size_text(launched.process - std::min(launched.process, budget.arena)),
       size_text(budget.arena), size_text(budget.outside));
}

}  // namespace plimsoll::cli
