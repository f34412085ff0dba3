// vLLM's defaults for arguments that are not given.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// Whether prompts are read in parts where no flag says so (engine/arg_utils.py: use_long_context);
/// none: as the release does with every model.
std::optional<bool> usual_chunking(const ConfigView& config, const EngineArgs& args);

/// The first engine's least tokens of a step where a model takes images (config.py:
/// _MULTIMODAL_MODEL_MAX_NUM_BATCHED_TOKENS); 0: none.
int64_t least_tokens_of_images(const ConfigView& config, const model::VllmVersion& version);

EngineLimits resolve_limits(const EngineArgs& args, const hardware::Gpu* gpu,
                            int64_t max_model_len);

/// Sizes of batch whose graphs are captured; empty with --enforce-eager.
struct GraphPlan {
  std::vector<int64_t> piecewise;
  int64_t full = 0;   // graphs of whole decode steps
  int64_t kinds = 1;  // of each; 2: with adapters and without
  [[nodiscard]] int64_t count() const {
    return (static_cast<int64_t>(piecewise.size()) + full) * kinds;
  }
};
GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const hardware::Gpu* gpu,
                      const ModelShape& shape);

}  // namespace plimsoll::vllm
