#include "cli/run/device_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "cli/units.h"
#include "cli/value_flag.h"

namespace plimsoll::cli {

namespace {

/// Kept free of what the driver says is free: other processes move.
constexpr uint64_t kMargin = uint64_t{64} << 20;

std::string gibibytes(uint64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1u << 30));
}

/// The KV cache's type by vLLM's name of it. Throws std::invalid_argument.
std::optional<DType> read_kv_dtype(const std::string& text) {
  if (text == "auto") return std::nullopt;
  if (text == "fp8" || text == "fp8_e4m3") return DType::f8_e4m3;
  for (const std::string_view name : {"bfloat16", "float16", "float32"}) {
    if (text == name) return dtype_from_torch(name);
  }
  throw std::invalid_argument(
      fmt::format("\"{}\" is not supported by this version, only auto, fp8 (e4m3), bfloat16, "
                  "float16 and float32",
                  text));
}

double read_share(const std::string& text) {
  size_t end = 0;
  double share = 0;
  try {
    share = std::stod(text, &end);
  } catch (const std::logic_error&) {
    end = 0;
  }
  if (end == text.size() && share > 0 && share <= 1) return share;
  throw std::invalid_argument("expected a number above 0 and at most 1");
}

}  // namespace

void declare_device_flags(CLI::App& command, DeviceFlags& flags) {
  value_flag(command, "--device", "auto|cpu|cuda", "where to run (default auto: a card if any)",
             [&flags](const std::string& text) {
               if (text != "auto" && text != "cpu" && text != "cuda") {
                 throw std::invalid_argument(
                     fmt::format("expected one of auto|cpu|cuda, found \"{}\"", text));
               }
               flags.device = text;
             });
  value_flag(command, "--gpu-memory-utilization", "X",
             "ceiling of this process, as a share of the card (default 0.9)",
             [&flags](const std::string& text) {
               flags.gpu_memory_utilization = read_share(text);
               flags.for_cards.emplace_back("--gpu-memory-utilization");
             });
  value_flag(command, "--gpu-memory", "SIZE", "the ceiling in bytes, in place of the share",
             [&flags](const std::string& text) {
               flags.gpu_memory = parse_size(text);
               flags.for_cards.emplace_back("--gpu-memory");
             });
  value_flag(command, "--kv-cache-dtype", "auto|fp8|bfloat16|float16|float32",
             "dtype of the KV cache (default auto: the model's)",
             [&flags](const std::string& text) { flags.kv_cache_dtype = read_kv_dtype(text); });
  command.add_flag_callback(
      "--enforce-eager",
      [&flags] {
        flags.enforce_eager = true;
        flags.for_cards.emplace_back("--enforce-eager");
      },
      "record no steps as CUDA graphs");
  value_flag(command, "--cudagraph-capture-sizes,--cuda-graph-sizes", "N,N,...",
             "sequences of the steps that are recorded", [&flags](const std::string& text) {
               flags.capture_sizes = parse_counts(text);
               flags.for_cards.emplace_back("--cudagraph-capture-sizes");
             });
  command.add_flag("--deterministic", flags.deterministic,
                   "the same line has the same bytes in any batch (always so on the CPU)");
}

std::optional<backend::DeviceInfo> choose_card(const DeviceFlags& flags) {
  if (flags.device == "cpu") return std::nullopt;
  const std::vector<backend::DeviceInfo> cards = backend::list_devices();
  if (!cards.empty()) return cards.front();
  if (flags.device != "cuda") return std::nullopt;
  fail(ExitCode::usage, "--device cuda: {}; use --device cpu",
       backend::kHasDeviceBackend ? "no card that this build has code for is there (nvidia-smi "
                                    "lists what the driver knows)"
                                  : "this build has no CUDA backend");
}

std::unique_ptr<backend::Backend> make_backend(const DeviceFlags& flags,
                                               const DeviceChoice& choice) {
  if (!choice.card) return backend::make_cpu_backend(choice.cpu);
  return backend::make_device_backend({.index = choice.card->index,
                                       .threads = choice.cpu.threads,
                                       .deterministic = flags.deterministic});
}

CardBudget card_budget(const DeviceFlags& flags, const backend::DeviceMemory& memory) {
  CardBudget budget;
  budget.ceiling = flags.gpu_memory.value_or(
      static_cast<uint64_t>(flags.gpu_memory_utilization * static_cast<double>(memory.total)));
  budget.ceiling = std::min(budget.ceiling, memory.total);
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
         gibibytes(budget.ceiling), gibibytes(memory.total), gibibytes(memory.free),
         gibibytes(memory.outside));
  }
  return budget;
}

namespace {

std::vector<std::string> apply_cpu(const DeviceFlags& flags, engine::EngineOptions& engine) {
  std::vector<std::string> notes;
  if (!flags.for_cards.empty()) {
    notes.push_back(fmt::format("{}: without effect on the CPU", fmt::join(flags.for_cards, ", ")));
  }
  if (flags.kv_cache_dtype && *flags.kv_cache_dtype != engine.dtype) {
    notes.push_back(fmt::format("--kv-cache-dtype: the CPU keeps the cache in the model's {}",
                                torch_name(engine.dtype)));
  }
  return notes;
}

}  // namespace

DeviceSetup apply_device(const DeviceFlags& flags, const DeviceChoice& choice,
                         const backend::Backend& backend, const model::ModelSpec& spec,
                         engine::EngineOptions& engine) {
  DeviceSetup setup;
  if (!choice.card) {
    setup.notes = apply_cpu(flags, engine);
    return setup;
  }
  engine.kv_dtype = flags.kv_cache_dtype;
  engine.capture_sizes = flags.capture_sizes;
  if (flags.enforce_eager) engine.capture_sizes = std::vector<int64_t>();
  // How many sizes are recorded does not depend on the pool: this one has room for everything.
  engine::EngineOptions roomy = engine;
  roomy.kv_cache_bytes = uint64_t{1} << 60;
  roomy.num_kv_blocks.reset();
  setup.graphs = std::ssize(engine::plan_engine(spec, roomy, backend.footprint()).recorded_sizes);
  setup.at_start = backend::device_memory(backend, spec, setup.graphs);
  setup.budget = card_budget(flags, setup.at_start);
  engine.memory_budget = setup.budget.arena;
  const uint64_t allowed = setup.budget.ceiling - setup.budget.outside;
  if (setup.budget.arena < allowed) {
    setup.notes.push_back(
        fmt::format("{} of the card's {} are free: the launch takes {} in place of {}",
                    gibibytes(setup.at_start.free), gibibytes(setup.at_start.total),
                    gibibytes(setup.budget.arena), gibibytes(allowed)));
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
       gibibytes(launched.process), gibibytes(budget.ceiling),
       gibibytes(launched.process - std::min(launched.process, budget.arena)),
       gibibytes(budget.arena), gibibytes(budget.outside));
}

}  // namespace plimsoll::cli
