// Parts of a launch on several ranks: each rank's part of the model, backend and source of weights.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/counted_source.h"
#include "conformance/cpu.h"
#include "engine/engine.h"
#include "shard/ranks/rank_model.h"
#include "shard/ranks/rank_source.h"

namespace plimsoll::testing {

/// Number of ranks: replicas of stages of tensor-parallel ranks.
struct Width {
  int64_t tensor = 1;
  int64_t stages = 1;
  int64_t replicas = 1;
  bool whole_experts = false;  // tensor ranks divide experts, not each of them
};

/// Makes the backend of a rank, of `ranks` ranks.
using MakeBackend = std::function<std::unique_ptr<backend::Backend>(size_t rank, size_t ranks)>;

/// Parts of all ranks; must outlive the engine that is made of them.
class RankParts {
 public:
  RankParts(
      const model::ModelSpec& spec, const checkpoint::WeightSource& whole, const Width& width,
      DType dtype,
      const MakeBackend& make_backend = [](size_t, size_t ranks) { return cpu_backend(ranks); })
      : models_(shard::stage_models(
            spec,
            {.tensor_parallel = width.tensor, .pipeline_parallel = width.stages, .dtype = dtype})) {
    const auto tensor = static_cast<size_t>(width.tensor);
    const size_t ranks = models_.size() * tensor * static_cast<size_t>(width.replicas);
    for (size_t i = 0; i < ranks; ++i) {
      const shard::StageModel& stage = models_[i / tensor % models_.size()];
      const shard::TensorRank share{static_cast<int64_t>(i % tensor), width.tensor};
      backends_.push_back(make_backend(i, ranks));
      sources_.push_back(std::make_unique<checkpoint::CountedSource>(whole));
      shares_.push_back(
          std::make_unique<shard::RankSource>(*sources_.back(), spec, stage.spec, share));
      ranks_.push_back({&stage.spec, stage.first_layer, backends_.back().get(),
                        width.tensor > 1
                            ? static_cast<const checkpoint::WeightSource*>(shares_.back().get())
                            : sources_.back().get()});
    }
  }

  [[nodiscard]] const std::vector<engine::Rank>& ranks() const { return ranks_; }
  /// Bytes of the checkpoint that each rank has read.
  [[nodiscard]] std::vector<uint64_t> read() const {
    std::vector<uint64_t> read;
    for (const auto& source : sources_) read.push_back(source->bytes_read());
    return read;
  }

 private:
  std::vector<shard::StageModel> models_;
  std::vector<std::unique_ptr<backend::Backend>> backends_;
  std::vector<std::unique_ptr<checkpoint::CountedSource>> sources_;
  std::vector<std::unique_ptr<shard::RankSource>> shares_;
  std::vector<engine::Rank> ranks_;
};

}  // namespace plimsoll::testing
