// What the ranks of a launch of vLLM hold, stage by stage: weights by part, buffers, adapters, and
// the model's shape.
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
  std::vector<PlanPart> parts;
  bool first = true;
  bool last = true;  // samples
};

/// The stages in order.
std::vector<Stage> build_stages(const ConfigView& config, ShapeOptions options,
                                const Quantization& quantization);

/// The shape of the whole model: caches of all stages.
ModelShape whole_shape(const std::vector<Stage>& stages);

/// An architecture that is not known weighs what its checkpoint's headers say, divided evenly.
void weigh_by_headers(Stage& stage, const EngineArgs& args, int64_t element);

/// What the plan leaves out or takes for granted, a sentence each.
std::vector<std::string> launch_notes(const Stage& stage, const Quantization& quantization,
                                      const EngineArgs& args);

}  // namespace plimsoll::vllm
