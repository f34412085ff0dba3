// A launch as its scheduler sees it, for forecasts of what it will do.
#pragma once

#include "backend/footprint.h"
#include "engine/cache/kv_cache.h"
#include "engine/engine.h"
#include "engine/forward/model.h"
#include "engine/scheduler.h"

namespace plimsoll::engine {

/// Sequences on the CPU before any has finished. Each that finishes lets one more run beside it, so
/// that a run that is killed has lost no more lines than it has kept, and these. Steps of so many
/// rows are bound by arithmetic already, not by reading weights.
inline constexpr int64_t kHostHeadStart = 32;

/// Rows whose arithmetic takes as long as reading the weights on cards, by their peaks: 156 on an
/// A100, 174 on an H200, 400 on an L4. The CPU's are kWeightRows (speculation/speculation.h).
inline constexpr double kCardWeightRows = 200;

struct ScheduleShape {
  KvCacheOptions cache;    // of each replica
  SchedulerLimits limits;  // of each replica
  int64_t replicas = 1;
  bool runs_ahead = false;  // a step starts before the tokens of the one before it are known
  double step_tokens = 0;   // of which the arithmetic takes as long as what a step does once
};

/// Whether sequences share blocks: a block of keys and values is no use to another sequence without
/// the states of recurrent mixers at its end.
bool shares_prefixes(const model::ModelSpec& spec, const EngineOptions& options);

/// The cache of a replica, of `blocks` of this layout.
KvCacheOptions cache_options(const KvLayout& kv, int64_t blocks, bool prefix_caching,
                             int64_t state_slots);

/// The schedule of an engine with these options; `plan` has its limits, blocks and kv_dtype.
ScheduleShape shape_of_schedule(const model::ModelSpec& spec, const EngineOptions& options,
                                const EnginePlan& plan, int64_t stages,
                                const backend::Footprint& footprint);

}  // namespace plimsoll::engine
