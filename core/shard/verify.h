// Checks shards on disk.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "shard/job.h"

namespace plimsoll::shard {

/// Compares every file with the digests of the folder's sidecar. Returns the first difference,
/// which names file and tensor; none when all is well. Throws Error(checkpoint_unusable) without a
/// sidecar.
std::optional<std::string> verify_digests(const std::filesystem::path& folder);

/// Digests of every file in `folder` that is neither weights nor one of our records, by its path
/// there.
std::map<std::string, FileRecord> side_records(const std::filesystem::path& folder);

/// Compares the files beside the weights with `known`. Returns the first difference.
std::optional<std::string> verify_side_files(const std::map<std::string, FileRecord>& known,
                                             const std::filesystem::path& folder);

/// Computes every byte again from the job's source and compares. Returns the first difference:
/// file, tensor and offset.
std::optional<std::string> verify_source(const Job& job, const std::filesystem::path& folder);

}  // namespace plimsoll::shard
