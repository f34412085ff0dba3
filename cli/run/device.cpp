#include "cli/run/device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/size_text.h"
#include "cli/run/no_card.h"
#include "plan/own/arguments.h"

namespace plimsoll::cli {

namespace {

/// Kept free of what the driver says is free: other processes move.
constexpr uint64_t kMargin = uint64_t{64} << 20;

}  // namespace

void choose_card(const EngineFlags& flags, DeviceChoice& choice) {
  if (flags.device == "cpu") return;
  const std::vector<backend::DeviceInfo> cards = backend::list_devices();
  if (!cards.empty()) {
    choice.card = cards.front();
    for (const auto& [flag, count] :
         {std::pair("--tensor-parallel-size", flags.args.tensor_parallel),
          std::pair("--pipeline-parallel-size", flags.args.pipeline_parallel),
          std::pair("--data-parallel-size", flags.args.data_parallel)}) {
      if (count == 1) continue;
      fail(ExitCode::usage,
           "{} {}: run has it on the processor alone so far; give --device cpu, or leave it out",
           flag, count);
    }
    return;
  }
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

std::unique_ptr<backend::Backend> make_backend(const EngineFlags& flags,
                                               const DeviceChoice& choice) {
  if (!choice.card) {
    backend::CpuOptions cpu = choice.cpu;
    // Ranks of a stage compute side by side, as copies do.
    const int64_t tensor = choice.tensor_ranks.value_or(flags.args.tensor_parallel);
    cpu.threads = plan::own::threads_of_copy(cpu.threads, flags.args.data_parallel * tensor);
    return backend::make_cpu_backend(cpu);
  }
  return backend::make_device_backend({.index = choice.card->index,
                                       .threads = choice.cpu.threads,
                                       .deterministic = flags.deterministic,
                                       .overlap = choice.overlap});
}

CardBudget card_budget(const EngineFlags& flags, const backend::DeviceMemory& memory) {
  CardBudget budget;
  plan::own::Arguments arguments;
  arguments.args = flags.args;
  arguments.ceiling = flags.gpu_memory.value_or(0);
  budget.ceiling =
      static_cast<uint64_t>(plan::own::budget_bytes(arguments, static_cast<int64_t>(memory.total)));
  budget.outside = memory.outside;
  // Some of what lies outside is taken already, but not all: on the safe side.
  const uint64_t kept = memory.outside + kMargin;
  const uint64_t free = memory.free - std::min(memory.free, kept);
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
std::vector<std::string> apply_cpu(const EngineFlags& flags, engine::EngineOptions& engine) {
  std::vector<std::string> notes;
  if (!flags.for_cards.empty()) {
    notes.push_back(fmt::format("{}: without effect on the CPU", fmt::join(flags.for_cards, ", ")));
  }
  engine.capture_sizes.reset();
  if (engine.kv_dtype == DType::f8_e4m3) return notes;
  if (engine.kv_dtype && *engine.kv_dtype != engine.dtype) {
    notes.push_back(fmt::format("--kv-cache-dtype: the CPU keeps the cache in the model's {}",
                                torch_name(engine.dtype)));
  }
  engine.kv_dtype.reset();
  return notes;
}

// What the card gives a launch of `engine`.
void budget_card(const EngineFlags& flags, const backend::Backend& backend,
                 const model::ModelSpec& spec, engine::EngineOptions& engine, DeviceSetup& setup) {
  // How many sizes are recorded does not depend on the pool: this one has room for everything.
  engine::EngineOptions roomy = engine;
  roomy.kv_cache_bytes = uint64_t{1} << 60;
  roomy.num_kv_blocks.reset();
  roomy.kv_cache_memory.reset();
  roomy.memory_budget.reset();
  setup.graphs = std::ssize(engine::plan_engine(spec, roomy, backend.footprint()).recorded_sizes);
  setup.at_start = backend::device_memory(backend, spec, setup.graphs);
  setup.budget = card_budget(flags, setup.at_start);
  engine.memory_budget = setup.budget.arena;
}

}  // namespace

DeviceSetup apply_device(const EngineFlags& flags, const DeviceChoice& choice,
                         const backend::Backend& backend, const model::ModelSpec& spec,
                         const std::vector<engine::StageView>& stages,
                         engine::EngineOptions& engine) {
  DeviceSetup setup;
  if (choice.card) {
    budget_card(flags, backend, spec, engine, setup);
  } else {
    setup.notes = apply_cpu(flags, engine);
    if (!choice.why_no_card.empty()) {
      setup.notes.push_back("running on the CPU: " + choice.why_no_card);
    }
  }
  if (flags.solve_sequences) {
    engine.max_num_seqs = plan::own::most_sequences(spec, stages, engine, backend.footprint());
    setup.notes.push_back(fmt::format("--max-num-seqs auto: {}", engine.max_num_seqs));
    if (choice.card) budget_card(flags, backend, spec, engine, setup);
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

void check_ceiling(const DeviceSetup& setup, const backend::DeviceMemory& launched) {
  const CardBudget& budget = setup.budget;
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
