#include "launch/sequences.h"

#include "base/error.h"
#include "engine/layout.h"

namespace plimsoll::launch {

int64_t most_sequences(const std::function<bool(int64_t)>& holds) {
  int64_t low = 0, high = kMostSequences;
  while (low < high) {
    const int64_t middle = low + (high - low + 1) / 2;
    if (holds(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

int64_t most_sequences(const ResolvedLaunch& launch, const backend::Footprint& footprint) {
  const std::vector<engine::StageView> stages = launch.stage_views();
  engine::EngineOptions options = launch.engine;
  const auto holds = [&](int64_t count) {
    options.max_num_seqs = count;
    const engine::EngineLayout layout =
        engine::resolve_stages(launch.spec, stages, options, footprint).front();
    const int64_t each =
        engine::blocks_of_sequence(layout.kv, layout.max_model_len, layout.limits.batched_tokens);
    return layout.num_blocks / count >= each;
  };
  if (!holds(1)) return 1;
  return most_sequences([&](int64_t count) {
    try {
      return holds(count);
    } catch (const Error& error) {
      if (error.code() == ExitCode::does_not_fit || error.code() == ExitCode::usage) return false;
      throw;
    }
  });
}

}  // namespace plimsoll::launch
