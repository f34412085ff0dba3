// Solves for an argument of a launch: the most sequences, the fewest GPUs, the smallest card with
// which it fits.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hardware/gpu_catalogue.h"
#include "plan/plan_result.h"
#include "vllm/engine_args.h"

namespace plimsoll::plan {

/// Plans one launch; throws Error for arguments that the engine refuses.
using PlanFunction = std::function<PlanResult(const EngineArgs&, const hardware::Gpu*)>;

/// The largest max_num_seqs whose requests of max_model_len all find room at once.
PlanResult solve_sequences(const PlanFunction& plan, EngineArgs args, const hardware::Gpu* gpu);

/// The smallest tensor-parallel size, a power of two up to `most`, at which the launch fits.
PlanResult solve_gpus(const PlanFunction& plan, EngineArgs args, const hardware::Gpu* gpu,
                      int64_t most);

/// The card with the least memory on which the launch fits.
PlanResult solve_card(const PlanFunction& plan, const EngineArgs& args);

/// Changes that would save memory, most useful first, then changes that people try in vain.
std::vector<Suggestion> advise(const PlanFunction& plan, const EngineArgs& args,
                               const hardware::Gpu* gpu, const PlanResult& base);

}  // namespace plimsoll::plan
