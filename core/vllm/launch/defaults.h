// vLLM's defaults for arguments that are not given.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"

namespace plimsoll::vllm {

/// Whether prompts are read in parts: as a flag says, where the release heeds it, else by model and
/// length (engine/arg_utils.py: use_long_context); none: as the release does with every model.
std::optional<bool> resolve_chunking(const ConfigView& config, const EngineArgs& args);

/// The first engine's least tokens of a step, for models that take images or answer with vectors
/// (config.py: _MULTIMODAL_MODEL_MAX_NUM_BATCHED_TOKENS, _POOLING_MODEL_...); 0: none.
int64_t least_tokens(const ConfigView& config, const EngineArgs& args);

/// `least_tokens`: of a step, where none are stated.
EngineLimits resolve_limits(const EngineArgs& args, const hardware::Gpu* gpu, int64_t max_model_len,
                            int64_t least_tokens = 0);

}  // namespace plimsoll::vllm
