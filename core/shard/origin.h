// What shards, and the record beside them, tell of the checkpoint that they were cut from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shard/joined.h"
#include "shard/quantized/tensor_patterns.h"

namespace plimsoll::shard {

struct Origin {
  ShardHints hints;
  /// Other spellings of tensor names that the source used: leading `first` stood as `second`.
  std::vector<std::pair<std::string, std::string>> spellings;
  /// Of quantised shards: tensors that the source had beside those that the config tells of, and
  /// which of its single values had the shape [1]; without a record what is usual.
  std::optional<TensorPatterns> present, listed;
};

/// What the folder's record says goes before `hints`. Throws Error(foreign_output) for what is no
/// record.
Origin read_origin(const std::filesystem::path& folder, const ShardHints& hints);

/// The weight table of the shards in the folder; of quantised ones in vLLM's load layout, where the
/// shards themselves tell what is quantised. Throws Error(checkpoint_unusable).
model::ModelSpec shards_spec(const std::filesystem::path& folder, const Origin& origin);

}  // namespace plimsoll::shard
