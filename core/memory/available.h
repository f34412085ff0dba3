// What a process of this machine can still take of the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace plimsoll::memory {

struct Available {
  int64_t bytes = 0;
  std::string bound;  // what bounds it, in words: "memory.max of /sys/fs/cgroup/job"
};

/// The least of what /proc/meminfo says is available and what each control group above this process
/// leaves below its limit: memory.max (version 2), memory.limit_in_bytes (version 1). Page cache of
/// files, which the kernel drops before it refuses, counts as free. Files are looked for below
/// `root`. Where nothing can be read there is no bound: the largest number.
Available available_memory(const std::filesystem::path& root = "/");

/// Throws Error(does_not_fit) unless as many bytes are left, of `bytes` that all of a launch's
/// ranks take together.
void require_for_ranks(size_t bytes);

}  // namespace plimsoll::memory
