// Weights for the engine from sharded_state files, whatever ranks they were cut for.
#pragma once

#include <memory>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "quantization/assign.h"
#include "shard/joined.h"

namespace plimsoll::shard {

class ShardReader final : public checkpoint::WeightSource {
 public:
  /// Opens plain shards as JoinedCheckpoint does. Also refuses dtypes that do not convert to the
  /// engine's, and files of another job where there is a sidecar. `spec` must outlive the reader.
  ShardReader(const std::filesystem::path& folder, const model::ModelSpec& spec,
              const ShardHints& hints);
  /// Opens shards that may be quantized: gives `spec` the packings that config.json and the shards
  /// state.
  ShardReader(const std::filesystem::path& folder, const Json& config, const ShardHints& hints,
              quantization::Activations activations, model::ModelSpec& spec);

  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(
      const model::WeightSpec& weight, size_t part, const checkpoint::Block& block) const override;
  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    read_block(weight, {first, count, 0, weight.columns()}, dtype, to);
  }
  void read_block(const model::WeightSpec& weight, const checkpoint::Block& block, DType dtype,
                  void* to) const override;
  [[nodiscard]] uint64_t stored_bytes(const model::WeightSpec& weight, int64_t first,
                                      int64_t count) const override;

  [[nodiscard]] int64_t tensor_parallel() const { return joined_.tensor_parallel(); }
  /// The shards' dtype, when all tensors have one.
  [[nodiscard]] std::optional<DType> dtype() const;

 private:
  ShardReader(const std::filesystem::path& folder, std::unique_ptr<const model::ModelSpec> table,
              const ShardHints& hints);
  /// Finds joined tensors. Each is joined when it is first read, and freed with its reader.
  [[nodiscard]] quantization::FindStored find() const;
  /// Throws Error(checkpoint_unusable) unless the shards hold all that `spec` asks for.
  void check_parts(const model::ModelSpec& spec) const;

  /// The weight table that quantized shards were cut by.
  std::unique_ptr<const model::ModelSpec> table_;
  JoinedCheckpoint joined_;
};

}  // namespace plimsoll::shard
