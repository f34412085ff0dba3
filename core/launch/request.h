// The request of a launch, by the flags that `run` and `plan` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "vllm/engine_args.h"

namespace plimsoll::launch {

struct Parameter;

/// A flag as it was given.
struct Given {
  const Parameter* parameter;
  std::string flag;   // "--dtype", "--no-async-scheduling"
  std::string value;  // as typed; a switch has none
};

struct LaunchRequest {
  vllm::EngineArgs args;
  std::string device = "auto";         // auto, cpu, cuda
  std::optional<int64_t> gpu_memory;   // --gpu-memory: the limit in bytes
  std::optional<uint64_t> host_cache;  // --cpu-kvcache-space, bytes
  std::optional<int> threads;
  std::optional<std::string> cpu_isa;
  bool solve_sequences = false;  // --max-num-seqs auto
  bool solve_tokens = false;     // --max-num-batched-tokens auto
  bool deterministic = false;
  std::optional<double> processor_cache_gib;             // --mm-processor-cache-gb
  OrderedJson processor_kwargs = OrderedJson::object();  // --mm-processor-kwargs
  std::vector<Given> given;                              // flags given, the last of each
};

}  // namespace plimsoll::launch
