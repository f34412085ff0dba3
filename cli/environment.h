// The environment, read once.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>

namespace plimsoll::cli {

struct Environment {
  std::string hub_cache;                       // HF_HUB_CACHE, else HF_HOME/hub, else ~/.cache/...
  std::optional<int> threads;                  // OMP_NUM_THREADS, its first number
  std::optional<std::string> kv_cache_space;   // VLLM_CPU_KVCACHE_SPACE, GiB
  std::optional<std::string> layer_partition;  // VLLM_PP_LAYER_PARTITION
  std::optional<int> mm_input_cache;           // VLLM_MM_INPUT_CACHE_GIB
  std::optional<int64_t> source_date_epoch;    // SOURCE_DATE_EPOCH, seconds
  std::optional<int> columns;                  // COLUMNS
  bool dumb_terminal = false;                  // TERM is "dumb" or missing
};

Environment read_environment();

/// What strftime_now in chat templates says for a whole command: SOURCE_DATE_EPOCH in UTC, else the
/// local time.
std::tm template_time(const Environment& environment);

}  // namespace plimsoll::cli
