// Facts about the checkpoint that shards were cut from, by the shards and the record beside them.
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
  /// For quantized shards: tensors that the checkpoint had beside those that its config implies
  /// (`present`), and which of its single values had the shape [1] (`listed`). Empty without a
  /// record: what is usual.
  std::optional<TensorPatterns> present, listed;
};

/// Reads the record of a folder, which goes before `hints`. Throws Error(foreign_output) for a file
/// that is not a record.
Origin read_origin(const std::filesystem::path& folder, const ShardHints& hints);

/// The weight table of the shards in a folder. Quantized shards give vLLM's load layout, and the
/// shards themselves decide which weights are quantized. Throws Error(checkpoint_unusable).
model::ModelSpec shards_spec(const std::filesystem::path& folder, const Origin& origin);

}  // namespace plimsoll::shard
