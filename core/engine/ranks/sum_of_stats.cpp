#include "engine/engine.h"

namespace plimsoll::engine {

EngineStats& EngineStats::operator+=(const EngineStats& other) {
  steps += other.steps;
  prompt_tokens += other.prompt_tokens;
  cached_prompt_tokens += other.cached_prompt_tokens;
  generated_tokens += other.generated_tokens;
  drafted_tokens += other.drafted_tokens;
  kept_tokens += other.kept_tokens;
  forced_tokens += other.forced_tokens;
  kept_forced_tokens += other.kept_forced_tokens;
  preemptions += other.preemptions;
  encoded_images += other.encoded_images;
  prefix_queries_tokens += other.prefix_queries_tokens;
  running += other.running;
  waiting += other.waiting;
  under_way += other.under_way;
  peak_running += other.peak_running;
  kv_blocks += other.kv_blocks;
  kv_blocks_used += other.kv_blocks_used;
  kv_blocks_peak += other.kv_blocks_peak;
  prefill_seconds += other.prefill_seconds;
  decode_seconds += other.decode_seconds;
  encode_seconds += other.encode_seconds;
  return *this;
}

EngineStats joined(const std::vector<EngineStats>& replicas) {
  EngineStats sum;
  for (const EngineStats& replica : replicas) sum += replica;
  const auto count = static_cast<double>(replicas.size());
  for (double* time : {&sum.prefill_seconds, &sum.decode_seconds, &sum.encode_seconds})
    *time /= count;
  return sum;
}

}  // namespace plimsoll::engine
