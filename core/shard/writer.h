// Writes the shards of a job: bounded memory, all ranks at once, whole files only.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "shard/job.h"

namespace plimsoll::shard {

struct WriteOptions {
  std::string tool_version;
  int threads = 0;                          // 0: as the machine has
  const std::atomic<bool>* stop = nullptr;  // set: leaves with Error(stopped_resumable)
  /// Called with the bytes of shards that are done so far; from any one thread.
  std::function<void(int64_t bytes)> progress = {};
};

struct WriteResult {
  int64_t written_bytes = 0;
  int64_t kept_bytes = 0;  // of files that an earlier run of the same job had finished
};

/// Refuses outputs as write_shards does, by what they are and hold, and changes nothing. Throws
/// Error(foreign_output, output_unwritable).
void check_output(const Job& job, const std::filesystem::path& output);

/// Refuses outputs that are the source, lie in it or hold anything but an earlier run of this job;
/// then writes shards, side files and at last the sidecar. Throws Error: foreign_output,
/// output_unwritable, locked, checkpoint_unusable, stopped_resumable.
WriteResult write_shards(const Job& job, const std::filesystem::path& output,
                         const WriteOptions& options);

}  // namespace plimsoll::shard
