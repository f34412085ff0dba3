// The memory of a launch of vLLM, for a stated version.
#pragma once

#include <optional>

#include "base/config_view.h"
#include "hardware/gpu_catalogue.h"
#include "plan/engine_args.h"
#include "plan/plan_result.h"
#include "plan/shapes/model_shape.h"
#include "quantization/config.h"

namespace plimsoll::plan {

using quantization::Quantization;

struct EncoderMemory;
struct Stage;

/// Plans one launch. Without a card there are sizes but no verdict. Throws Error(usage) for
/// arguments that vLLM refuses, Error(checkpoint_unusable) for a config that is no model.
PlanResult plan_vllm(const ConfigView& config, const EngineArgs& args, const hardware::Gpu* gpu);

/// How long a context the model itself allows, in tokens, before any memory is looked at.
struct ModelLength {
  int64_t usual = 0;  // without --max-model-len
  int64_t most = 0;   // what the release takes for the bound
  int64_t reach = 0;  // what the positions are stretched to; from 0.30 on YaRN's may exceed `most`
  bool stated = false;  // false: the config has no length at all, and any is taken
  std::string key;      // of the config: where the bound is from
};
ModelLength model_length(const ConfigView& config, const VllmVersion& version);

/// Throws Error(usage), in vLLM's words, for a length that the positions do not reach.
void check_length(const ModelLength& length, int64_t asked, const ConfigView& config,
                  const VllmVersion& version);

/// What to know of positions that the release does not stretch by itself; empty: nothing.
std::string length_note(const ModelLength& length, int64_t planned, const VllmVersion& version);

/// The dtype that vLLM computes in: "bfloat16", "float16" or "float32".
std::string resolve_dtype(const ConfigView& config, const EngineArgs& args,
                          const hardware::Gpu* gpu);

/// The checkpoint's quantization, else the one that the arguments ask for. Throws Error.
Quantization quantization_of(const ConfigView& config, const EngineArgs& args);

/// What the plan assumes of quantization that the config does not state; empty: nothing.
std::string quantization_note(const ConfigView& config, const EngineArgs& args,
                              const Quantization& quantization);

/// Throws Error(usage) where the version's quantization method does not take the card.
void check_card(const std::string& method, const VllmVersion& version, const hardware::Gpu* gpu);

/// Throws Error(usage) where the method does not compute in the dtype.
void check_dtype(const std::string& method, const std::string& dtype, const VllmVersion& version);

/// Defaults that the engine fills in by card, use and version.
struct EngineLimits {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  double utilization = 0;
};
EngineLimits resolve_limits(const EngineArgs& args, const hardware::Gpu* gpu,
                            int64_t max_model_len);

/// Throw Error(usage), in vLLM's words and with the cure, for arguments that vLLM refuses whatever
/// the memory: alone, and for this model and its cache.
void check_arguments(const ConfigView& config, const EngineArgs& args, const EngineLimits& limits,
                     const ModelLength& length, int64_t max_model_len);
void check_model(const ModelShape& shape, const KvPlan& kv, const EngineArgs& args);

/// vLLM's message where graphs of whole decode steps cannot be captured for want of blocks of state
/// (vllm/config/compilation.py); empty: they can. For launches that capture graphs.
std::string state_blocks_refusal(const EngineArgs& args, const EngineLimits& limits,
                                 const ModelShape& shape, const hardware::Gpu* gpu, int64_t blocks);

/// Sizes of batch whose graphs are captured; empty with --enforce-eager.
struct GraphPlan {
  std::vector<int64_t> piecewise;
  int64_t full = 0;  // graphs of whole decode steps
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(piecewise.size()) + full; }
};
GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const hardware::Gpu* gpu,
                      const ModelShape& shape);

/// The model runner that executes the model; the second has no float32 copy of the logits.
bool uses_second_runner(const EngineArgs& args, const ModelShape& shape);

/// Peak of activations while profiling, in named parts that add up to the peak.
std::vector<PlanPart> activation_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const Stage& stage, int64_t element,
                                       const hardware::Gpu* gpu, const EncoderMemory& encoder);

/// Memory that neither torch's allocator nor the weights hold, once the engine has started.
int64_t non_torch_bytes(const EngineArgs& args, const hardware::Gpu* gpu);

/// Context and communication set up before the engine looks at what is free.
int64_t context_bytes(const EngineArgs& args, const hardware::Gpu* gpu);

/// Memory of the captured graphs of so many layers.
int64_t graph_bytes(const GraphPlan& graphs, int64_t layers);

/// What the release's kernel for mxfp4 experts on the card wants.
ExpertKernel expert_kernel(const VllmVersion& version, const hardware::Gpu* gpu);

/// "40.0", "39.98": GiB as vLLM's messages print them.
std::string format_gib(int64_t bytes);

std::string no_memory_message(const VllmVersion& version);
/// Of --max-model-len auto.
std::string no_length_message();
std::string too_long_message(const VllmVersion& version, int64_t max_model_len, int64_t needed,
                             int64_t available, int64_t estimate);
std::string not_free_message(const VllmVersion& version, int64_t free, int64_t total,
                             double utilization, int64_t requested);

}  // namespace plimsoll::plan
