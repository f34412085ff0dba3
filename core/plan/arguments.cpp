#include "plan/arguments.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace plimsoll::plan {

void add_arguments(PlanResult& result, const EngineArgs& args) {
  const auto add = [&](const char* flag, std::string value) {
    result.arguments.emplace_back(flag, std::move(value));
  };
  if (args.tensor_parallel > 1) add("--tensor-parallel-size", std::to_string(args.tensor_parallel));
  if (args.pipeline_parallel > 1)
    add("--pipeline-parallel-size", std::to_string(args.pipeline_parallel));
  const int64_t length =
      result.auto_max_model_len > 0 ? result.auto_max_model_len : result.max_model_len;
  add("--max-model-len", std::to_string(length));
  add("--max-num-seqs", std::to_string(result.max_num_seqs));
  add("--max-num-batched-tokens", std::to_string(result.max_num_batched_tokens));
  if (result.budget_bytes > 0) {
    add("--gpu-memory-utilization", fmt::format("{:.4g}", result.gpu_memory_utilization));
  }
  if (args.kv_cache_dtype != "auto") add("--kv-cache-dtype", args.kv_cache_dtype);
  if (!args.quantization.empty()) add("--quantization", args.quantization);
  if (args.enforce_eager) add("--enforce-eager", "");
}

}  // namespace plimsoll::plan
