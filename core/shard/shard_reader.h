// Weights for the engine from sharded_state files, whatever ranks they were cut for.
#pragma once

#include <unordered_map>

#include "checkpoint/checkpoint.h"
#include "shard/joined.h"

namespace plimsoll::shard {

class ShardReader final : public checkpoint::WeightSource {
 public:
  /// As JoinedCheckpoint; refuses quantised shards too, and dtypes that do not convert to the
  /// engine's, and, where a sidecar tells, files of another job. `spec` must outlive the reader.
  ShardReader(const std::filesystem::path& folder, const model::ModelSpec& spec,
              const ShardHints& hints);

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override;

  [[nodiscard]] int64_t tensor_parallel() const { return joined_.tensor_parallel(); }
  /// The shards' dtype, when all tensors have one.
  [[nodiscard]] std::optional<DType> dtype() const;

 private:
  JoinedCheckpoint joined_;
};

}  // namespace plimsoll::shard
