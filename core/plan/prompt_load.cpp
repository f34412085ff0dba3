#include "plan/prompt_load.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/amount.h"

namespace plimsoll::plan {

int64_t blocks_of_sequence(const PlanResult& result, int64_t length) {
  Amount sum = 0;
  for (const GroupNeed& need : result.group_needs) sum += need.blocks(length);
  return sum.value();
}

PromptLoad weigh_sequences(const PlanResult& result, std::span<const SequenceLength> sequences) {
  PromptLoad load;
  std::vector<int64_t> needs;
  needs.reserve(sequences.size());
  double block_steps = 0;
  double steps = 0;
  for (const SequenceLength& sequence : sequences) {
    needs.push_back(blocks_of_sequence(result, sequence.prompt + sequence.answer));
    const auto life = static_cast<double>(std::max<int64_t>(1, sequence.answer));
    const int64_t half_way = sequence.prompt + (sequence.answer + 1) / 2;
    block_steps += life * static_cast<double>(blocks_of_sequence(result, half_way));
    steps += life;
  }
  const auto together = static_cast<size_t>(std::min<int64_t>(
      static_cast<int64_t>(needs.size()), std::max<int64_t>(1, result.max_num_seqs)));
  std::partial_sort(needs.begin(), needs.begin() + static_cast<int64_t>(together), needs.end(),
                    std::greater<>());
  Amount peak = 0;
  for (size_t i = 0; i < together; ++i) peak += needs[i];
  load.peak_blocks = peak.value();
  if (!needs.empty()) load.longest_blocks = needs.front();
  if (result.has_kv && block_steps > 0) {
    load.concurrency = std::min(static_cast<double>(together),
                                static_cast<double>(result.num_gpu_blocks) * steps / block_steps);
  }
  return load;
}

}  // namespace plimsoll::plan
