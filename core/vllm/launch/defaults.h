// vLLM's defaults for arguments that are not given.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"

namespace plimsoll::vllm {

/// Whether prompts are read in parts where no flag says so (engine/arg_utils.py: use_long_context);
/// none: as the release does with every model.
std::optional<bool> usual_chunking(const ConfigView& config, const EngineArgs& args);

/// The first engine's least tokens of a step where a model takes images (config.py:
/// _MULTIMODAL_MODEL_MAX_NUM_BATCHED_TOKENS); 0: none.
int64_t least_tokens_of_images(const ConfigView& config, const EngineArgs& args);

EngineLimits resolve_limits(const EngineArgs& args, const hardware::Gpu* gpu,
                            int64_t max_model_len);

}  // namespace plimsoll::vllm
