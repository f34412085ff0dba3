// The host's memory that a process of this machine can still take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

namespace plimsoll::memory {

struct Available {
  int64_t bytes = 0;
  std::string bound;  // the limit in words: "memory.max of /sys/fs/cgroup/job"
};

/// The least of what /proc/meminfo says is available and what each control group above this process
/// leaves below its limit: memory.max (version 2), memory.limit_in_bytes (version 1). Page cache of
/// files, which the kernel drops before it refuses, counts as free. Files are looked for below
/// `root`. Where nothing can be read there is no bound: the largest number.
Available available_memory(const std::filesystem::path& root = "/");

/// Memory in bytes that the ranks of a launch on this machine take together.
struct HostNeed {
  size_t weights = 0;
  size_t all = 0;  // weights included
};

/// Throws Error(does_not_fit) when less than `need` is left.
void require(const HostNeed& need, const std::filesystem::path& root = "/");

}  // namespace plimsoll::memory
