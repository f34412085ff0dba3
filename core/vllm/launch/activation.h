// Memory of a step beside weights and cache, and memory outside the budget of both.
#pragma once

#include <cstdint>
#include <vector>

#include "vllm/figures.h"
#include "vllm/items/encoder_memory.h"
#include "vllm/launch/attention_room.h"
#include "vllm/launch/defaults.h"
#include "vllm/launch/graphs.h"
#include "vllm/launch/stage.h"

namespace plimsoll::vllm {

/// Release from which all that is gone from free memory is taken from the budget (mem_utils.py).
inline constexpr VllmVersion kConsumed{0, 27, 0};

/// Peak of activations while profiling, in named parts that add up to the peak.
std::vector<PlanPart> activation_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const hardware::Gpu* gpu, const EncoderMemory& encoder,
                                       const AttentionRoom& attention);

/// Peak of the first boot, while torch.compile tries kernels on copies of the embedding table
/// (Inductor draws them by rand_strided); 0: the release does not, or the table is outside the
/// graph, as in models that read images. Logged: 5.13 GiB for tables of 5.12 (Gemma 3n E2B on an
/// L4), 2.59 for 2.37 (Qwen3.8 27B on a Quadro RTX 8000), 0.67 for 0.58 (Qwen2.5 3B on a laptop).
int64_t cold_peak(const EngineArgs& args, const EngineLimits& limits, const Stage& stage,
                  int64_t element);

/// What torch keeps beside the weights from before the profile run on. Releases before 0.27 do not
/// take it from the budget.
std::vector<PlanPart> persistent_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const AttentionRoom& attention);

/// Bytes of the workspace that experts and attention share, when the profile ends.
Amount shared_workspace(const EngineArgs& args, const EngineLimits& limits, const Stage& stage,
                        int64_t element, const AttentionRoom& attention);

/// Memory of the captured graphs of so many layers; `flashinfer`: attention runs in its kernels,
/// `plans`: those of each whole graph have a plan of their own.
PlanPart graph_part(const GraphPlan& graphs, int64_t layers, bool flashinfer, bool plans);

/// Requirements of the release's kernel for mxfp4 experts on the card.
ExpertKernel expert_kernel(const VllmVersion& version, const hardware::Gpu* gpu);

}  // namespace plimsoll::vllm
