// vLLM's messages when memory does not suffice, word for word.
#pragma once

#include <cstdint>
#include <string>

#include "vllm/engine_args.h"

namespace plimsoll::vllm {

/// "40.0", "39.98": GiB as vLLM's messages print them.
std::string format_gib(int64_t bytes);

std::string no_memory_message(const VllmVersion& version);
/// Message of --max-model-len auto.
std::string no_length_message();
std::string too_long_message(const EngineArgs& args, int64_t max_model_len, int64_t needed,
                             int64_t available, int64_t estimate);
std::string not_free_message(const VllmVersion& version, int64_t free, int64_t total,
                             double utilization, int64_t requested);

}  // namespace plimsoll::vllm
