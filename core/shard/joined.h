// The checkpoint's tensors, joined from the ranks' shares of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/copy_rows.h"
#include "model/model_spec.h"
#include "shard/layout.h"
#include "shard/shard_files.h"

namespace plimsoll::shard {

/// One tensor of the checkpoint, in pieces that lie in the ranks' files.
class JoinedTensor {
 public:
  [[nodiscard]] const model::Part& part() const { return *part_; }
  [[nodiscard]] bool is_mapped() const { return part_->mapping == model::Mapping::minus_exp; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  /// A file that holds part of the tensor, for messages.
  [[nodiscard]] const std::filesystem::path& file() const;
  [[nodiscard]] int64_t bytes() const;

  /// Copies a block to `to` [rows, columns] in the engine's orientation, converted. Thread-safe.
  /// Throws Error(checkpoint_unusable) when a file cannot be read any more.
  void copy(const checkpoint::Block& block, DType dtype, std::byte* to) const;
  /// Copies the transpose of a block to `to` [columns, rows], converted. Thread-safe, throws as
  /// copy().
  void copy_transposed(const checkpoint::Block& block, DType dtype, std::byte* to) const;

  /// Rows as the checkpoint stores them (the rows of a transposed tensor are the engine's columns).
  [[nodiscard]] int64_t stored_rows() const;
  [[nodiscard]] int64_t stored_columns() const;
  void copy_stored_rows(int64_t first, int64_t count, std::byte* to) const;

 private:
  friend class JoinedCheckpoint;
  struct Piece {
    checkpoint::TensorEntry from;  // the rank's tensor as [rows, columns]
    Slice slice;
  };
  void copy(const checkpoint::Block& block, bool transposed, DType dtype, std::byte* to) const;

  const model::Part* part_ = nullptr;
  DType dtype_{};
  std::vector<Piece> pieces_;
  std::set<std::pair<int64_t, int64_t>> starts_;  // of the pieces; other ranks may repeat them
};

/// Facts about shards from the user or from a sidecar.
struct ShardHints {
  std::string file_pattern = {};                // empty: vLLM's
  std::optional<Release> release = {};          // empty: the newest whose names fit
  std::optional<int64_t> tensor_parallel = {};  // must be what the files show
};

/// Gives the spec a head of its own where config.json ties the head and the shards hold another
/// one.
void resolve_tied_head(const std::filesystem::path& folder, const std::string& file_pattern,
                       model::ModelSpec& spec);

class JoinedCheckpoint {
 public:
  /// Opens the shards in `folder`, of any tensor-parallel and pipeline-parallel ranks, which follow
  /// from names and shapes. `spec` must outlive the result. Throws Error(checkpoint_unusable)
  /// naming file and tensor: for files that are missing or left over, for tensors that lack, are
  /// unknown, or have another shape than the ranks give them or another dtype than on other ranks,
  /// and for a model with tensors that no shard holds (left_out.h).
  JoinedCheckpoint(const std::filesystem::path& folder, const model::ModelSpec& spec,
                   const ShardHints& hints);

  /// Tensors of the checkpoint, by their names in the weight table.
  [[nodiscard]] const std::map<std::string, JoinedTensor>& tensors() const { return tensors_; }
  [[nodiscard]] int64_t tensor_parallel() const { return tensor_parallel_; }

 private:
  void add(const ShardTensor& tensor, int64_t rank);

  int64_t tensor_parallel_ = 1;
  std::vector<RankShard> shards_;
  Stage stage_;  // all tensors; the tensors' parts live in the spec
  std::map<std::string, JoinedTensor> tensors_;
};

}  // namespace plimsoll::shard
