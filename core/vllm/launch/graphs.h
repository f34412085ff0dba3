// CUDA graphs that vLLM captures (vllm/config/vllm.py: _set_cudagraph_sizes; compilation.py:
// CUDAGraphMode), by release.
#pragma once

#include <cstdint>
#include <vector>

#include "hardware/gpu_catalogue.h"
#include "vllm/engine_args.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

/// What graphs record: steps between attentions (piecewise), whole steps of any kind (full), or
/// whole steps in which each sequence decodes (decode).
enum class GraphMode : uint8_t { none, piecewise, full, decode, decode_and_piecewise };

/// The mode in which vLLM launches the model, by flags, release and what model and card can do.
GraphMode graph_mode(const EngineArgs& args, const hardware::Gpu* gpu, const ModelShape& shape);

/// Whether vLLM's own compiler compiles the model.
bool compiles_model(const EngineArgs& args);

inline bool has_full_graphs(GraphMode mode) {
  return mode != GraphMode::none && mode != GraphMode::piecewise;
}

/// Ends, in vLLM's words, where it refuses the sizes or the mode that are asked for
/// (vllm/config/vllm.py: _set_cudagraph_sizes).
void check_graphs(const EngineArgs& args, const EngineLimits& limits);

/// Sizes of batch whose graphs are captured.
struct GraphPlan {
  std::vector<int64_t> piecewise;
  int64_t full = 0;   // graphs of whole steps
  int64_t kinds = 1;  // of each; 2: with adapters and without
  [[nodiscard]] int64_t count() const {
    return (static_cast<int64_t>(piecewise.size()) + full) * kinds;
  }
};
GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const hardware::Gpu* gpu,
                      const ModelShape& shape);

}  // namespace plimsoll::vllm
