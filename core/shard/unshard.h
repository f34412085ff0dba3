// Joins shards to a Hugging Face checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "shard/job.h"

namespace plimsoll::shard {

/// Joins the shards in `folder` (config.json beside them) and writes model.safetensors, or several
/// files with an index when it would exceed `options.max_file_size`, and the side files to the new
/// or empty folder `output`. A sidecar in `folder` goes before `options`. Tensors keep the shards'
/// dtype. The same call resumes an interrupted run. Throws Error(checkpoint_unusable) naming file
/// and tensor, and what OutputFolder throws.
void unshard(const std::filesystem::path& folder, const std::filesystem::path& output,
             const JobOptions& options);

}  // namespace plimsoll::shard
