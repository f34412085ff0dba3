#include "batch/order/step_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rounding.h"

namespace plimsoll::batch {
namespace {

constexpr double kTolerance = 1.02;  // of the least cost
constexpr int64_t kMostSequences = 4096;
constexpr int64_t kLeastTokens = 512, kMostTokens = 16384;

/// KV blocks of a sequence of so many tokens.
int64_t blocks_of(const engine::KvCacheOptions& cache, double tokens) {
  int64_t blocks = 0;
  for (const int64_t window : cache.windows) {
    const auto kept = static_cast<int64_t>(std::ceil(tokens));
    blocks += divide_up(window > 0 ? std::min(kept, window) : kept, cache.block_size);
  }
  return blocks;
}

/// Sums over an input's sequences.
struct Totals {
  double sequences = 0;
  double prompts = 0;      // tokens
  double computed = 0;     // prompt tokens that do not come from the cache
  double answers = 0;      // tokens
  double longest = 0;      // tokens of the longest answer
  double block_steps = 0;  // KV blocks that decoding sequences hold, summed over the steps
};

Totals sum_up(const PrefixIndex& index, uint64_t shared_tokens,
              const engine::KvCacheOptions& cache) {
  Totals sums;
  const auto prompts = static_cast<double>(std::max<uint64_t>(index.prompt_tokens(), 1));
  const double own = cache.prefix_caching ? 1 - static_cast<double>(shared_tokens) / prompts : 1;
  for (size_t line = 0; line < index.lines(); ++line) {
    for (const IndexedSequence& sequence : index.sequences(line)) {
      const double answer = std::max(sequence.answer, 1u), choices = sequence.choices;
      const double prompt = sequence.prompt * own;
      sums.sequences += choices;
      sums.prompts += choices * sequence.prompt;
      sums.computed += cache.prefix_caching ? prompt : prompt * choices;
      sums.answers += choices * answer;
      sums.longest = std::max(sums.longest, answer);
      sums.block_steps +=
          choices * answer * static_cast<double>(blocks_of(cache, prompt + answer / 2));
    }
  }
  return sums;
}

LimitsEstimate estimate(const Totals& sums, const engine::ScheduleShape& launch) {
  const auto replicas = static_cast<double>(launch.replicas);
  const double sequences = sums.sequences / replicas;
  LimitsEstimate result;
  result.concurrent = std::min(static_cast<double>(launch.limits.sequences), sequences);
  if (sums.block_steps > 0) {
    const double held = sums.block_steps / sums.answers;
    result.concurrent =
        std::min(result.concurrent, static_cast<double>(launch.cache.blocks) / held);
  }
  if (const auto start = static_cast<double>(launch.limits.head_start); start > 0) {
    // As many more as have finished may run, so that at most half of the others do.
    result.concurrent = std::min(result.concurrent, std::max(start, (sequences + start) / 2));
  }
  result.concurrent = std::max(result.concurrent, 1.0);
  // The last to end has the longest answer, and runs on beside ever fewer others.
  const double tail = sums.longest - sums.answers / sums.sequences;
  const double decode = sums.answers / replicas / result.concurrent + tail;
  const double prefill = sums.computed / replicas / static_cast<double>(launch.limits.tokens);
  result.steps = decode + prefill;
  result.cost = result.steps * replicas * launch.step_tokens + sums.computed + sums.answers;
  return result;
}

/// Values of an open limit, ascending: powers of two from `least` up to `most`, and that one.
std::vector<int64_t> doubling(int64_t least, int64_t most) {
  std::vector<int64_t> values;
  for (int64_t value = least; value < most; value *= 2) values.push_back(value);
  values.push_back(most);
  return values;
}

std::vector<StepLimits> candidates(const Totals& sums, const AskedLimits& asked,
                                   const LaunchOfLimits& launch_of) {
  std::vector<int64_t> sequences = {asked.given.sequences}, tokens = {asked.given.tokens};
  if (asked.sequences_open) {
    int64_t most = std::clamp<int64_t>(static_cast<int64_t>(sums.sequences), 1, kMostSequences);
    if (asked.given.tokens > 0) most = std::min(most, asked.given.tokens);
    auto usual = launch_of({0, asked.given.tokens});
    if (!usual) usual = launch_of({0, smallest_limits(asked).tokens});
    // States of recurrent mixers are large, and the default is as many as should be held.
    if (usual && usual->cache.state_slots > 0) most = std::min(most, usual->limits.sequences);
    sequences = doubling(1, most);
  }
  if (asked.tokens_open) tokens = doubling(kLeastTokens, kMostTokens);
  std::vector<StepLimits> all;
  for (const int64_t of_sequences : sequences) {
    for (const int64_t of_tokens : tokens) all.push_back({of_sequences, of_tokens});
  }
  return all;
}

}  // namespace

StepLimits smallest_limits(const AskedLimits& asked) {
  StepLimits smallest = asked.given;
  if (asked.sequences_open) smallest.sequences = 1;
  if (asked.tokens_open) smallest.tokens = std::max(kLeastTokens, smallest.sequences);
  return smallest;
}

LimitsEstimate estimate_limits(const PrefixIndex& index, uint64_t shared_tokens,
                               const engine::ScheduleShape& launch) {
  return estimate(sum_up(index, shared_tokens, launch.cache), launch);
}

std::optional<ChosenLimits> choose_limits(const PrefixIndex& index, uint64_t shared_tokens,
                                          const AskedLimits& asked,
                                          const LaunchOfLimits& launch_of) {
  struct Candidate {
    engine::ScheduleShape launch;
    LimitsEstimate estimate;
  };
  const auto least_launch = launch_of(smallest_limits(asked));
  if (!least_launch) return std::nullopt;
  const Totals sums = sum_up(index, shared_tokens, least_launch->cache);
  if (sums.sequences == 0) return std::nullopt;
  std::vector<Candidate> fitting;
  for (const StepLimits& limits : candidates(sums, asked, launch_of)) {
    if (auto launch = launch_of(limits)) {
      launch->step_tokens = asked.step_tokens.value_or(launch->step_tokens);
      fitting.push_back({*launch, estimate(sums, *launch)});
    }
  }
  const auto cost = [](const Candidate& one) { return one.estimate.cost; };
  if (fitting.empty()) return std::nullopt;
  const double least = cost(*std::ranges::min_element(fitting, {}, cost));
  const Candidate& best = *std::ranges::find_if(
      fitting, [&](const Candidate& one) { return cost(one) <= least * kTolerance; });
  const LimitsEstimate& figures = best.estimate;
  return ChosenLimits{
      {best.launch.limits.sequences, best.launch.limits.tokens},
      fmt::format("{:.0f} sequences of {:.0f} tokens and {:.0f} to answer, on average, take some "
                  "{:.0f} steps in {} KV blocks, and larger limits save less than 2 % of the time",
                  sums.sequences, sums.prompts / sums.sequences, sums.answers / sums.sequences,
                  std::ceil(figures.steps), best.launch.cache.blocks)};
}

}  // namespace plimsoll::batch
