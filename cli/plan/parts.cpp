#include "cli/plan/parts.h"

#include <fmt/format.h>

#include "base/error.h"
#include "plan/solver.h"
#include "plan/vllm_plan.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kMostGpus = 64;

plan::PlanFunction plan_function(const plan::ConfigView& config, const PlanOptions& options) {
  if (options.engine == "vllm") {
    return [&config](const plan::EngineArgs& args, const plan::Gpu* gpu) {
      return plan::plan_vllm(config, args, gpu);
    };
  }
  return [&config, &options](const plan::EngineArgs& args, const plan::Gpu* gpu) {
    PlanOptions changed = options;
    changed.args = args;
    return plan_own_engine(config, changed, gpu);
  };
}

plan::PlanResult solve(const plan::PlanFunction& plan, const plan::EngineArgs& args,
                       const PlanOptions& options, const plan::Gpu* gpu) {
  if (options.gpu == "smallest") return plan::solve_card(plan, args);
  if (options.gpus == 0) return plan::solve_gpus(plan, args, gpu, kMostGpus);
  if (options.solve_seqs) return plan::solve_sequences(plan, args, gpu);
  return plan(args, gpu);
}

void note_ignored(plan::PlanResult& result, const PlanOptions& options) {
  if (options.ignored.empty()) return;
  result.notes.push_back(
      fmt::format("moves no device memory: {}", fmt::join(options.ignored, ", ")));
}

}  // namespace

plan::PlanResult make_plan(const plan::ConfigView& config, const PlanOptions& options,
                           const std::optional<plan::Gpu>& card) {
  const plan::Gpu* gpu = card ? &*card : nullptr;
  plan::EngineArgs args = options.args;
  if (options.gpu_memory && gpu != nullptr) {
    args.gpu_memory_utilization = std::min(
        1.0, static_cast<double>(*options.gpu_memory) / static_cast<double>(gpu->visible_bytes()));
  }
  if (options.gpus.value_or(0) > 0 && args.tensor_parallel == 1 && args.pipeline_parallel == 1 &&
      args.data_parallel == 1) {
    args.tensor_parallel = *options.gpus;
  }
  const plan::PlanFunction plan = plan_function(config, options);
  plan::PlanResult result = solve(plan, args, options, gpu);
  if (options.gpus.value_or(0) > 0 && result.gpus > *options.gpus) {
    result.fits = false;
    result.reason = fmt::format(
        "{} GPUs are needed for tensor parallel {}, pipeline parallel {}, data parallel {}, "
        "and {} are at hand.",
        result.gpus, args.tensor_parallel, args.pipeline_parallel, args.data_parallel,
        *options.gpus);
  }
  const bool wanted = options.advise || (result.fits && !*result.fits && args.available_kv == 0);
  if (wanted && gpu != nullptr) result.advice = plan::advise(plan, args, gpu, result);
  note_ignored(result, options);
  return result;
}

}  // namespace plimsoll::cli
