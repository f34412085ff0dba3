// Memory of a step beside weights and cache, and memory outside the budget of both.
#pragma once

#include <cstdint>
#include <vector>

#include "vllm/figures.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/stage.h"

namespace plimsoll::vllm {

/// The model runner that executes the model; the second has no float32 copy of the logits.
bool uses_second_runner(const EngineArgs& args, const ModelShape& shape);

/// Peak of activations while profiling, in named parts that add up to the peak.
std::vector<PlanPart> activation_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const hardware::Gpu* gpu, const EncoderMemory& encoder);

/// Memory that neither torch's allocator nor the weights hold, once the engine has started.
int64_t non_torch_bytes(const EngineArgs& args, const hardware::Gpu* gpu);

/// Context and communication, which are set up before the engine looks at free memory.
int64_t context_bytes(const EngineArgs& args, const hardware::Gpu* gpu);

/// Memory of the captured graphs of `layers` layers.
int64_t graph_bytes(const GraphPlan& graphs, int64_t layers);

/// Requirements of the release's kernel for mxfp4 experts on the card.
ExpertKernel expert_kernel(const VllmVersion& version, const hardware::Gpu* gpu);

}  // namespace plimsoll::vllm
