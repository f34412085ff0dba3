// The dtype that a launch computes in.
#pragma once

#include <string>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"

namespace plimsoll::vllm {

/// The dtype that vLLM computes in: "bfloat16", "float16" or "float32".
std::string resolve_dtype(const ConfigView& config, const EngineArgs& args,
                          const hardware::Gpu* gpu);

/// What --kv-cache-dtype becomes by model, card and release. Throws Error(usage), in vLLM's words,
/// where the release needs another.
std::string resolve_cache_dtype(const ConfigView& config, const EngineArgs& args,
                                const hardware::Gpu* gpu);

}  // namespace plimsoll::vllm
