// The memory of a launch of vLLM, for a stated version.
#pragma once

#include <optional>

#include "plan/config_view.h"
#include "plan/engine_args.h"
#include "plan/gpu_catalogue.h"
#include "plan/model_shape.h"
#include "plan/plan_result.h"

namespace plimsoll::plan {

struct EncoderMemory;

/// Plans one launch. Without a card there are sizes but no verdict. Throws Error(usage) for
/// arguments that vLLM refuses, Error(checkpoint_unusable) for a config that is no model.
PlanResult plan_vllm(const ConfigView& config, const EngineArgs& args, const Gpu* gpu);

/// The longest context that the model itself states, before any memory is looked at.
int64_t derived_max_model_len(const ConfigView& config);

/// The dtype that vLLM computes in: "bfloat16", "float16" or "float32".
std::string resolve_dtype(const ConfigView& config, const EngineArgs& args, const Gpu* gpu);

/// Throws Error(usage) where the version's quantization method does not take the card.
void check_card(const std::string& method, const VllmVersion& version, const Gpu* gpu);

/// Defaults that the engine fills in by card, use and version.
struct EngineLimits {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  double utilization = 0;
};
EngineLimits resolve_limits(const EngineArgs& args, const Gpu* gpu, int64_t max_model_len);

/// Sizes of batch whose graphs are captured; empty with --enforce-eager.
struct GraphPlan {
  std::vector<int64_t> piecewise;
  int64_t full = 0;  // graphs of whole decode steps
  [[nodiscard]] int64_t count() const { return static_cast<int64_t>(piecewise.size()) + full; }
};
GraphPlan plan_graphs(const EngineArgs& args, const EngineLimits& limits, const Gpu* gpu,
                      const std::string& architecture);

/// The model runner that executes the model; the second has no float32 copy of the logits.
bool uses_second_runner(const EngineArgs& args, const ModelShape& shape);

/// Peak of activations while profiling, in named parts that add up to the peak.
std::vector<PlanPart> activation_parts(const EngineArgs& args, const EngineLimits& limits,
                                       const ModelShape& shape, int64_t element, const Gpu* gpu,
                                       const EncoderMemory& encoder);

/// Memory that neither torch's allocator nor the weights hold, once the engine has started.
int64_t non_torch_bytes(const EngineArgs& args, const Gpu* gpu);

/// Context and communication set up before the engine looks at what is free.
int64_t context_bytes(const EngineArgs& args, const Gpu* gpu);

/// Memory of the captured graphs.
int64_t graph_bytes(const GraphPlan& graphs, const ModelShape& shape);

/// "40.0", "39.98": GiB as vLLM's messages print them.
std::string format_gib(int64_t bytes);

std::string no_memory_message(const VllmVersion& version);
std::string too_long_message(const VllmVersion& version, int64_t max_model_len, int64_t needed,
                             int64_t available, int64_t estimate);
std::string not_free_message(const VllmVersion& version, int64_t free, int64_t total,
                             double utilization, int64_t requested);

}  // namespace plimsoll::plan
