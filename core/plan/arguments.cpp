#include "plan/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace plimsoll::plan {

void add_arguments(PlanResult& result, const EngineArgs& args) {
  const auto add = [&](const char* flag, std::string value) {
    result.arguments.emplace_back(flag, std::move(value));
  };
  const std::pair<const char*, int64_t> ranks[] = {
      {"--tensor-parallel-size", args.tensor_parallel},
      {"--pipeline-parallel-size", args.pipeline_parallel},
      {"--data-parallel-size", args.data_parallel}};
  for (const auto& [flag, count] : ranks)
    if (count > 1) add(flag, std::to_string(count));
  const int64_t length =
      result.auto_max_model_len > 0 ? result.auto_max_model_len : result.max_model_len;
  add("--max-model-len", std::to_string(length));
  add("--max-num-seqs", std::to_string(result.max_num_seqs));
  add("--max-num-batched-tokens", std::to_string(result.max_num_batched_tokens));
  if (result.engine == "vllm" && result.budget_bytes > 0)
    add("--gpu-memory-utilization", fmt::format("{}", result.gpu_memory_utilization));
  // The flag's first release; in a pipeline each stage has its own cache.
  constexpr vllm::VllmVersion kPinned{0, 11, 0};
  if (result.bounds && args.version >= kPinned && args.pipeline_parallel == 1)
    add("--kv-cache-memory-bytes", std::to_string(result.kv_cache_bytes));
}

}  // namespace plimsoll::plan
