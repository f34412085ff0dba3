#include "cli/host_limits.h"

#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "base/units.h"

namespace plimsoll::cli {
namespace {

constexpr uint64_t kDefaultCacheBytes = uint64_t{4} << 30;  // vLLM's default on the CPU

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

int host_threads(std::optional<int> asked, const Environment& environment) {
  return asked.value_or(environment.threads.value_or(usable_cores()));
}

uint64_t host_cache_bytes(std::optional<uint64_t> asked, const Environment& environment) {
  if (asked) return *asked;
  if (!environment.kv_cache_space) return kDefaultCacheBytes;
  try {
    return parse_size(*environment.kv_cache_space, uint64_t{1} << 30);
  } catch (const std::invalid_argument& error) {
    fail(ExitCode::usage, "VLLM_CPU_KVCACHE_SPACE: {}", error.what());
  }
}

size_t kept_image_bytes(size_t asked, int64_t left, size_t taken) {
  const size_t all = static_cast<size_t>(std::max<int64_t>(left, 0));
  return std::min(asked, (all - std::min(all, taken)) / 2);
}

}  // namespace plimsoll::cli
