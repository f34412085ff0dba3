// What one tensor-parallel rank of `run` reads of a model's weights.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// Which of a stage's ranks.
struct TensorRank {
  int64_t rank = 0;
  int64_t ranks = 1;
};

class RankSource final : public checkpoint::WeightSource {
 public:
  /// `whole` has the weights of `spec`; those of `rank_spec` are the rank's shares (stage_models).
  /// All must outlive the source.
  RankSource(const checkpoint::WeightSource& whole, const model::ModelSpec& spec,
             const model::ModelSpec& rank_spec, const TensorRank& rank);

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override;
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(
      const model::WeightSpec& weight, size_t part, const checkpoint::Block& block) const override;

 private:
  /// Not of a tower's weights, of which each rank has the whole.
  [[nodiscard]] std::optional<size_t> id_of(const model::WeightSpec& weight) const;

  const checkpoint::WeightSource& whole_;
  const model::ModelSpec& rank_spec_;
  std::vector<const model::WeightSpec*> weights_;       // by id: the whole ones
  std::vector<std::vector<checkpoint::Block>> blocks_;  // likewise: the rank's of them
  std::vector<std::vector<checkpoint::Block>> parts_;   // likewise, by part
  std::vector<size_t> first_parts_;                     // likewise: which the rank's first is
};

}  // namespace plimsoll::shard
