#include "plan/engines/free_memory.h"

#include <cmath>

#include <fmt/format.h>

#include "plan/vllm_plan.h"

namespace plimsoll::plan {
namespace {

using engines::kGib;
constexpr int64_t kMib = int64_t{1} << 20;

/// Context and libraries of a process before it loads weights. Logs of 1 GPU lie from 0.57 GiB (RTX
/// 4090) to 0.93 GiB (RTX 3090) below CUDA's total.
constexpr int64_t kContext = 740 * kMib, kContextLess = 200 * kMib, kContextMore = 220 * kMib;
/// NCCL and the buffers of the custom all-reduce, of each rank; not known by link.
constexpr int64_t kRanks = 650 * kMib, kRanksLess = 350 * kMib, kRanksMore = 700 * kMib;
/// What loading leaves beside the weights: repacked copies, workspaces, rotary tables. Logs: 0.20
/// GiB (7.6 billion parameters in bfloat16).
constexpr int64_t kLoading = 200 * kMib, kLoadingLess = 180 * kMib, kLoadingMore = 400 * kMib;

/// Root of the sum of squares, GiB: the parts err by themselves.
double spread(const std::vector<PlanPart>& parts, int64_t PlanPart::*edge) {
  double sum = 0;
  for (const PlanPart& part : parts) {
    const double gib = static_cast<double>(part.*edge) / kGib;
    sum += gib * gib;
  }
  return std::sqrt(sum);
}

}  // namespace

FreePrediction predict_free(const ConfigView& config, const hardware::Gpu& gpu,
                            const engines::Figures& figures) {
  EngineArgs args;
  args.tensor_parallel = figures.ranks;
  args.dtype = figures.dtype;
  args.quantization = figures.quantization;
  const PlanResult weights = plan_vllm(config, args, nullptr);
  FreePrediction free;
  free.parts.push_back({"context and libraries", kContext, "estimate",
                        "logs: 0.57 to 0.93 GiB below CUDA's total", true, kContextLess,
                        kContextMore});
  int64_t before = gpu.visible_bytes() - kContext;
  if (figures.ranks > 1) {
    free.parts.push_back({"nccl and all-reduce", kRanks, "estimate", "not known by link", true,
                          kRanksLess, kRanksMore});
    before -= kRanks;
  }
  const int64_t loaded = weights.weights_bytes;
  free.parts.push_back({"weights", loaded,
                        fmt::format("a rank of {}, cut as vLLM does", figures.ranks), "config",
                        true, 0, 0});
  free.parts.push_back({"left by loading", kLoading, "estimate",
                        "repacked copies, workspaces, rotary tables", true, kLoadingLess,
                        kLoadingMore});
  free.middle.before = static_cast<double>(before) / kGib;
  free.middle.after = static_cast<double>(before - loaded - kLoading) / kGib;
  free.less = spread(free.parts, &PlanPart::more);  // what is taken more leaves less
  free.more = spread(free.parts, &PlanPart::less);
  free.notes.emplace_back(
      "free memory is predicted, and what the engine makes of it is exact: --free-memory "
      "before=SIZE,after=SIZE states what the engine's log prints");
  return free;
}

}  // namespace plimsoll::plan
