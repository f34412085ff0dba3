// What a launch caches of prefixes, and how it keeps recurrent states for them.
#pragma once

#include "vllm/engine_args.h"
#include "vllm/kv/kv_plan.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

struct PrefixCaching {
  bool on = true;
  StateBlocks states;
};

/// By release, model and arguments (vllm/config/model.py: is_prefix_caching_supported;
/// vllm/model_executor/models/config.py: MambaModelConfig).
PrefixCaching resolve_prefixes(const EngineArgs& args, const ModelShape& shape);

/// Whether beginnings of prompts are cached where no flag says so; none: as resolve_prefixes has it
/// by the model's layers.
std::optional<bool> usual_caching(const ConfigView& config, const EngineArgs& args);

/// Throws Error(usage), in the release's words, for --mamba-cache-mode and --mamba-block-size where
/// it does not take them.
void check_state_flags(const EngineArgs& args);

/// Throws Error(usage) for what the release refuses of recurrent models with these arguments.
void check_prefixes(const EngineArgs& args, const ModelShape& shape, const PrefixCaching& caching,
                    int64_t max_model_len);

/// What of the arguments has no effect in the release; empty: nothing.
std::string prefixes_note(const EngineArgs& args);

}  // namespace plimsoll::vllm
