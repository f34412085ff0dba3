#include "plan/engines/free_memory.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

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

/// Bytes of the parts of a rank's weights whose names are among `names`.
int64_t bytes_of(const PlanResult& plan, std::initializer_list<std::string_view> names) {
  int64_t bytes = 0;
  for (const PlanPart& part : plan.parts)
    if (std::ranges::find(names, part.name) != names.end()) bytes += part.bytes;
  return bytes;
}

/// Bytes of one rank's weights. Attention and experts may be divided among other numbers of ranks
/// than the rest.
int64_t weight_bytes(const ConfigView& config, const engines::Figures& figures, int64_t ranks) {
  const auto plan_of = [&](int64_t divided) {
    EngineArgs args;
    args.tensor_parallel = divided;
    args.expert_parallel = figures.whole_experts;
    args.dtype = figures.dtype;
    args.quantization = figures.quantization;
    args.tables.offload = figures.host_ngrams;
    return plan_vllm(config, args, nullptr);
  };
  const PlanResult plan = plan_of(ranks);
  int64_t bytes = plan.weights_bytes;
  const auto divide = [&](int64_t others, std::initializer_list<std::string_view> names) {
    if (others > 0 && others != ranks)
      bytes += bytes_of(plan_of(others), names) - bytes_of(plan, names);
  };
  divide(figures.attention_ranks,
         {"weights: attention", "weights: embedding", "weights: made after loading"});
  divide(figures.expert_ranks, {"weights: experts"});
  return bytes;
}

}  // namespace

FreePrediction predict_free(const ConfigView& config, const hardware::Gpu& gpu,
                            const engines::Figures& figures) {
  const int64_t ranks = figures.weight_ranks > 0 ? figures.weight_ranks : figures.ranks;
  FreePrediction free;
  free.parts.push_back({"context and libraries", kContext, "estimate",
                        "logs: 0.57 to 0.93 GiB below CUDA's total", true, kContextLess,
                        kContextMore});
  int64_t before = gpu.visible_bytes() - kContext;
  if (std::max(ranks, figures.expert_ranks) > 1) {
    free.parts.push_back({"nccl and all-reduce", kRanks, "estimate", "not known by link", true,
                          kRanksLess, kRanksMore});
    before -= kRanks;
  }
  const int64_t loaded = weight_bytes(config, figures, ranks);
  free.parts.push_back({"weights", loaded, fmt::format("a rank of {}, cut as vLLM does", ranks),
                        "config", true, 0, 0});
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
