// What a rank's layout says, as figures of a plan.
#pragma once

#include <cstdint>

#include "plan/own/launch.h"
#include "plan/plan_result.h"

namespace plimsoll::plan::own {

/// Kinds, groups and bytes of the KV cache.
void fill_cache_layout(PlanResult& result, const RankLaunch& rank);

/// What the rank takes beside the KV blocks: the arena's regions, overheads of a card.
void fill_parts(PlanResult& result, const RankLaunch& rank);

/// What one stage of `result`'s launch takes; it has room for `blocks`.
StageFigures stage_figures(const PlanResult& result, const RankLaunch& rank, int64_t blocks);

}  // namespace plimsoll::plan::own
