// The weights of a model that one tensor-parallel rank of `run` reads.
#pragma once

#include <optional>

#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"
#include "shard/layout.h"

namespace plimsoll::shard {

/// A rank among the tensor-parallel ranks of a stage.
struct TensorRank {
  int64_t rank = 0;
  int64_t ranks = 1;
};

class RankSource final : public checkpoint::WeightSource {
 public:
  /// `whole` reads the weights of `spec`; the weights of `rank_spec` are the rank's shares
  /// (stage_models). All must outlive the source.
  RankSource(const checkpoint::WeightSource& whole, const model::ModelSpec& spec,
             const model::ModelSpec& rank_spec, const TensorRank& rank);

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override;
  [[nodiscard]] std::unique_ptr<model::PackedRows> packed(
      const model::WeightSpec& weight, size_t part, const checkpoint::Block& block) const override;

 private:
  /// Id of a weight that ranks share; none for a tower's weights, which each rank has whole.
  [[nodiscard]] std::optional<size_t> id_of(const model::WeightSpec& weight) const;

  const checkpoint::WeightSource& whole_;
  const model::ModelSpec& rank_spec_;
  std::vector<const model::WeightSpec*> weights_;       // by id: the whole ones
  std::vector<std::vector<checkpoint::Block>> blocks_;  // by id: the rank's blocks of the weight
  /// The rank's blocks of a part, by the weight's id and the part.
  std::vector<std::vector<checkpoint::Block>> parts_;
  std::vector<size_t> first_parts_;  // by id: index of the rank's first part
};

}  // namespace plimsoll::shard
