// The shard files in a folder, found by their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace plimsoll::shard {

struct ShardFile {
  std::filesystem::path path;
  int64_t stage = 0;
};

/// The files of each rank, in the order of stages and parts.
struct ShardFiles {
  std::string pattern;                          // of the files' names
  std::vector<std::vector<ShardFile>> by_rank;  // [rank]
};

/// Finds files whose names follow `pattern` (empty: vLLM's own). Throws Error(usage) for an invalid
/// pattern, Error(checkpoint_unusable) when there are no files or some are missing between those
/// found.
ShardFiles find_shard_files(const std::filesystem::path& folder, const std::string& pattern);

/// True when the folder holds files under vLLM's own names for shards.
bool looks_sharded(const std::filesystem::path& folder);

/// All tensors of one rank. Stages may repeat a tensor; the first counts.
class RankShard {
 public:
  /// Opens the files. Throws Error(checkpoint_unusable) naming the file, for one that is no
  /// safetensors file, and for a tensor that two parts of a stage hold.
  explicit RankShard(const std::vector<ShardFile>& files);
  RankShard(RankShard&&) noexcept;
  ~RankShard();

  [[nodiscard]] const std::map<std::string, checkpoint::TensorEntry>& tensors() const {
    return tensors_;
  }
  /// The tensor of this name and shape. Throws Error(checkpoint_unusable).
  [[nodiscard]] const checkpoint::TensorEntry& find(const std::string& name,
                                                    const std::vector<int64_t>& shape) const;

 private:
  std::filesystem::path first_;
  std::vector<std::unique_ptr<checkpoint::MappedFile>> files_;
  std::map<std::string, checkpoint::TensorEntry> tensors_;
};

}  // namespace plimsoll::shard
