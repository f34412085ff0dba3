// What the engine's scheduler makes of an input: its own code runs over sequences whose tokens are
// known by the hashes of their blocks alone.
#pragma once

#include <cstdint>
#include <span>

#include "batch/order/prefix_index.h"
#include "engine/schedule_shape.h"

namespace plimsoll::batch {

/// Counts of a run, as its report has them.
struct ScheduleForecast {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of these, from the prefix cache
  uint64_t completion_tokens = 0;
  uint64_t steps = 0;
  uint64_t preemptions = 0;
  int64_t kv_blocks_peak = 0;
};

/// Forecasts a run of the index's lines in this order, exact where answers are as long as the index
/// has them, prompts have no images, a replica is no pipeline, and nothing is speculated. Answers
/// count as unlike every other text.
ScheduleForecast forecast_schedule(const PrefixIndex& index, std::span<const uint32_t> order,
                                   const engine::ScheduleShape& launch);

}  // namespace plimsoll::batch
