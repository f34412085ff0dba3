// Demands of a prompt file's sequences on a planned cache.
#pragma once

#include <cstdint>
#include <span>

#include "plan/plan_result.h"

namespace plimsoll::plan {

/// KV blocks, over all groups, that one sequence of `length` tokens holds.
int64_t blocks_of_sequence(const PlanResult& result, int64_t length);

/// Length of a sequence in tokens; the answer's at most.
struct SequenceLength {
  int64_t prompt = 0;
  int64_t answer = 0;
};

struct PromptLoad {
  int64_t longest_blocks = 0;  // of the sequence that needs most
  /// Blocks of the sequences that need most, as many as may run at once, all at their end. More
  /// than the pool has means that some wait or are preempted.
  int64_t peak_blocks = 0;
  /// Sequences that run at once, on average over the whole file: the pool is full, and each
  /// sequence holds half of its answer for as many steps as the answer has tokens. 0: no pool.
  double concurrency = 0;
};

/// `result` needs its cache's layout (group_needs, max_num_seqs, num_gpu_blocks).
PromptLoad weigh_sequences(const PlanResult& result, std::span<const SequenceLength> sequences);

}  // namespace plimsoll::plan
