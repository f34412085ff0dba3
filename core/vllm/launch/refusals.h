// Launches that vLLM refuses whatever the memory.
#pragma once

#include <cstdint>
#include <string>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/kv/kv_plan.h"
#include "vllm/launch/length.h"

namespace plimsoll::vllm {

/// Throw Error(usage), in vLLM's words and with the cure, for arguments that vLLM refuses whatever
/// the memory: alone, for a stage of the model, and for the model and its cache (`prefixes`: which
/// keeps prefixes).
void check_arguments(const ConfigView& config, const EngineArgs& args, const EngineLimits& limits,
                     const ModelLength& length, int64_t max_model_len);
void check_stage(const ModelShape& stage, const EngineArgs& args);
void check_model(const ModelShape& shape, const KvPlan& kv, const EngineArgs& args, bool prefixes);
/// Refuses a cache of 8 bits that no kernel reads on this card. For launches that have one.
void check_fp8_cache(const ModelShape& shape, const EngineArgs& args, const hardware::Gpu* gpu);

/// vLLM's message where graphs of whole decode steps cannot be captured for want of blocks of state
/// (vllm/config/compilation.py); empty: they can. For launches that capture graphs.
std::string state_blocks_refusal(const EngineArgs& args, const EngineLimits& limits,
                                 const ModelShape& shape, const hardware::Gpu* gpu, int64_t blocks);

}  // namespace plimsoll::vllm
