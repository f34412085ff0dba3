// One pipeline stage of a launch of vLLM on a card: the memory it takes, and what is left for its
// cache.
#pragma once

#include <optional>

#include "vllm/items/encoder_memory.h"
#include "vllm/launch/attention_room.h"
#include "vllm/launch/stage.h"
#include "vllm/launch/terms.h"

namespace plimsoll::vllm {

/// Arguments and terms that all stages of a launch share.
struct WholeLaunch {
  const EngineArgs& args;
  const Terms& terms;
  const ModelShape& shape;
  const hardware::Gpu* gpu;
  const KvPlan& kv;  // caches of all stages, which share block tables
  bool fp8_cache = false;
};

struct StageLaunch {
  StageFigures figures;
  Amount left;       // for the cache; 0 without a card
  int64_t less = 0;  // that it may be, by the logs of its kind, in bytes
  int64_t more = 0;
  /// What is left, at the middle or at the worst edge.
  [[nodiscard]] Amount at(Assume assume) const {
    return assume == Assume::worst ? left - less : left;
  }
  EncoderMemory encoder;
  int64_t graphs = 0;
  TensorSum late;    // request of the workspace that layers share, behind the profile
  Amount workspace;  // bytes that it has by then
};

/// Weights, activations and graphs of a stage, and what the budget leaves.
StageLaunch launch_stage(const Stage& stage, const WholeLaunch& whole);

/// The budget in bytes: the utilization's share of the card.
int64_t budget_bytes(const EngineLimits& limits, const hardware::Gpu& gpu);

/// vLLM's refusal where the card has not even the budget free, or the stage does not fit it: its
/// weights, or a cache of stated size beside the rest; empty: it fits.
std::string start_refusal(const EngineArgs& args, const EngineLimits& limits,
                          const hardware::Gpu& gpu, const StageFigures& stage,
                          Amount bytes_per_block);

}  // namespace plimsoll::vllm
