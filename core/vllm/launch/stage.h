// The ranks of a launch of vLLM, stage by stage: weights by part, buffers, adapters, and the
// model's shape.
#pragma once

#include <string>
#include <vector>

#include "quantization/config.h"
#include "vllm/engine_args.h"
#include "vllm/figures.h"
#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {

using quantization::Quantization;

/// One rank of one pipeline stage.
struct Stage {
  ModelShape shape;
  Amount parameters;
  Amount buffers;
  Amount adapters;
  Amount loading;     // most that parameters take while they are loaded
  Amount slack;       // that torch's allocator gives beside the parameters
  Amount embeddings;  // tables of tokens, looked up by the first layer
  Amount apart;       // parameters outside the decoder's layers: embedding, head, encoders
  std::vector<PlanPart> parts;
  bool first = true;
  bool last = true;  // samples

  /// Parameters of the decoder's layers, which are all that vLLM offloads (models/utils.py:
  /// make_layers).
  [[nodiscard]] Amount layer_bytes() const { return parameters - apart; }
};

/// The stages in order.
std::vector<Stage> build_stages(const ConfigView& config, ShapeOptions options,
                                const Quantization& quantization);

/// The shape of the whole model: caches of all stages.
ModelShape whole_shape(const std::vector<Stage>& stages);

/// Sets the weight of an unknown architecture by its checkpoint's headers, divided evenly.
void weigh_by_headers(Stage& stage, const EngineArgs& args, int64_t element);

/// The newest release that is known, for a release after it; empty: that release is known.
std::string newest_known(const VllmVersion& version);

/// Notes on what the plan leaves out or assumes, a sentence each.
std::vector<std::string> launch_notes(const Stage& stage, const Quantization& quantization,
                                      const EngineArgs& args);

}  // namespace plimsoll::vllm
