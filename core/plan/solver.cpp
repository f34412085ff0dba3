#include "plan/solver.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "launch/sequences.h"
#include "plan/report/report.h"

namespace plimsoll::plan {
namespace {

/// A plan, or nothing where the engine refuses the arguments.
std::optional<PlanResult> try_plan(const PlanFunction& plan, const EngineArgs& args,
                                   const hardware::Gpu* gpu) {
  try {
    return plan(args, gpu);
  } catch (const Error& error) {
    if (error.code() != ExitCode::usage) throw;
    return std::nullopt;
  }
}

/// `count` requests of the whole context run at once. Without a card there is no verdict.
bool holds(const std::optional<PlanResult>& result, int64_t count) {
  return result && result->fits.value_or(true) &&
         result->max_concurrency >= static_cast<double>(count);
}

/// Why a launch has no more sequences.
std::string_view bound_of(int64_t sequences, const EngineArgs& args) {
  if (sequences == launch::kMostSequences) return "the search goes no further";
  if (sequences == args.max_num_batched_tokens)
    return "each needs one token of --max-num-batched-tokens";
  return "the KV cache holds no more";
}

/// What a search for the fewest cards says of a --tensor-parallel-size that it did not keep.
std::string in_place_of(int64_t asked, int64_t ranks) {
  return asked > 1 && asked != ranks ? fmt::format(", in place of --tensor-parallel-size {}", asked)
                                     : "";
}

std::string refused_sizes(const std::string& sizes) {
  return sizes.empty() ? "" : fmt::format(" Refused sizes: {}.", sizes);
}

}  // namespace

PlanResult solve_sequences(const PlanFunction& plan, EngineArgs args, const hardware::Gpu* gpu) {
  const auto with = [&](int64_t count) {
    EngineArgs changed = args;
    changed.max_num_seqs = count;
    return try_plan(plan, changed, gpu);
  };
  std::optional<PlanResult> best = with(1);
  if (!holds(best, 1)) {
    args.max_num_seqs = 1;
    PlanResult result = plan(args, gpu);
    result.solved = "Not even one sequence of this context finds room.";
    return result;
  }
  const int64_t most = launch::most_sequences([&](int64_t count) {
    std::optional<PlanResult> result = with(count);
    const bool fits = holds(result, count);
    if (fits) best = std::move(result);
    return fits;
  });
  best->solved = fmt::format("Most sequences at once, each of {} tokens: {} ({}).",
                             best->max_model_len, most, bound_of(most, args));
  return *best;
}

PlanResult solve_gpus(const PlanFunction& plan, EngineArgs args, const hardware::Gpu* gpu,
                      int64_t most) {
  const int64_t asked = args.tensor_parallel;
  const int64_t copies = std::max<int64_t>(1, args.pipeline_parallel) *
                         std::max<int64_t>(1, args.data_parallel);  // of a tensor-parallel group
  std::optional<PlanResult> last, refusal;
  std::string refused;
  std::string lacking;  // of the largest size that does not fit
  for (int64_t ranks = 1; ranks == 1 || ranks * copies <= most; ranks *= 2) {
    args.tensor_parallel = ranks;
    std::optional<PlanResult> result = try_plan(plan, args, gpu);
    if (!result || result->refused) {
      refused += fmt::format("{}{}", refused.empty() ? "" : ", ", ranks * copies);
      if (ranks == 1) refusal = std::move(result);
      continue;
    }
    last = std::move(result);
    if (!last->fits.value_or(false)) {
      lacking = fmt::format(" (with {}, weights and KV cache do not fit)", last->gpus);
      continue;
    }
    last->solved = fmt::format("Fewest GPUs: {}{}{}.{}", last->gpus, lacking,
                               in_place_of(asked, ranks), refused_sizes(refused));
    return *last;
  }
  if (!last) {  // the engine refuses every size: no number of cards is at fault
    args.tensor_parallel = 1;
    return refusal ? *std::move(refusal) : plan(args, gpu);
  }
  last->solved =
      fmt::format("No number of these GPUs up to {} is enough.{}", most, refused_sizes(refused));
  return *last;
}

PlanResult solve_card(const PlanFunction& plan, const EngineArgs& args) {
  std::vector<const hardware::Gpu*> cards;
  for (const hardware::Gpu& gpu : hardware::gpu_catalogue()) {
    if (gpu.memory_bytes > 0 && !gpu.is_slice() && !gpu.is_built_in()) cards.push_back(&gpu);
  }
  std::stable_sort(cards.begin(), cards.end(), [](const hardware::Gpu* a, const hardware::Gpu* b) {
    return a->memory_bytes < b->memory_bytes;
  });
  std::optional<PlanResult> last, refusal;
  for (const hardware::Gpu* card : cards) {
    std::optional<PlanResult> result = try_plan(plan, args, card);
    if (!result) continue;
    if (result->refused) {
      refusal = std::move(result);
      continue;
    }
    last = std::move(result);
    if (!last->fits.value_or(false)) continue;
    last->solved = fmt::format("Smallest card of the catalogue: {} ({}).", card->name,
                               readable_bytes(card->memory_bytes));
    return *last;
  }
  if (!last) return refusal ? *std::move(refusal) : plan(args, cards.back());
  last->solved =
      fmt::format("It fits on no card of the catalogue{}.", last->gpus == 1 ? " alone" : "");
  return *last;
}

}  // namespace plimsoll::plan
