// Figures of a plan, from a rank's layout.
#pragma once

#include <cstdint>

#include "plan/plan_result.h"
#include "plan/plimsoll/launch.h"

namespace plimsoll::plan::own {

/// Kinds, groups and bytes of the KV cache.
void fill_cache_layout(PlanResult& result, const RankLaunch& rank);

/// The parts of a rank beside the KV blocks: the arena's regions, overheads of a card.
void fill_parts(PlanResult& result, const RankLaunch& rank);

/// Figures of one stage of `result`'s launch, which has room for `blocks`.
StageFigures stage_figures(const PlanResult& result, const RankLaunch& rank, int64_t blocks);

}  // namespace plimsoll::plan::own
