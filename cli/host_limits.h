// Limits of a launch on this machine's processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cli/environment.h"

namespace plimsoll::cli {

/// Number of threads: --threads, else OMP_NUM_THREADS, else the cores that this process may use.
int host_threads(std::optional<int> asked, const Environment& environment);

/// Bytes of the KV pool: --cpu-kvcache-space, else VLLM_CPU_KVCACHE_SPACE, else 4 GiB. Throws
/// Error(usage).
uint64_t host_cache_bytes(std::optional<uint64_t> asked, const Environment& environment);

/// Bytes for processed images that are kept: `asked`, but no more than half of what remains of
/// the host's free memory, `left`, when the launch has taken `taken` of it.
size_t kept_image_bytes(size_t asked, int64_t left, size_t taken);

}  // namespace plimsoll::cli
