// What a card has free before and after an engine has loaded its weights, where nobody states it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config_view.h"
#include "engines/answer.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

struct FreePrediction {
  engines::FreeMemory middle;   // GiB
  double less = 0, more = 0;    // how far `after` may lie below and above, GiB
  std::vector<PlanPart> parts;  // what is taken until the cache is sized
  std::vector<std::string> notes;
};

/// Predicts it for the weights of one rank as vLLM cuts them, which the engines in Python share:
/// `figures` has their ranks, type, and quantization while they are loaded. Throws Error for a
/// config that is no model or cannot be cut so.
FreePrediction predict_free(const ConfigView& config, const hardware::Gpu& gpu,
                            const engines::Figures& figures);

}  // namespace plimsoll::plan
