// A model of the golden results on as many ranks as asked.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "batch/scratch.h"
#include "checkpoint/counted_source.h"
#include "checkpoint/settle_model.h"
#include "conformance/cpu.h"
#include "conformance/golden_models.h"
#include "engine/engine.h"
#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "model/config.h"
#include "quantization/assign.h"
#include "quantization/online.h"
#include "reference/recipe.h"
#include "shard/ranks/rank_model.h"
#include "shard/ranks/rank_source.h"

namespace plimsoll::testing {

namespace fs = std::filesystem;
using Answers = std::map<uint64_t, std::string>;

/// How many ranks: copies of stages of tensor-parallel ranks.
struct Width {
  int64_t tensor = 1;
  int64_t stages = 1;
  int64_t copies = 1;
};

/// A model of the golden results on as many ranks as asked.
class RankSubject {
 public:
  explicit RankSubject(const std::filesystem::path& recipe,
                       quantization::Activations activations = quantization::Activations::rounded)
      : folder_(scratch_.path("model")) {
    write_checkpoint(recipe, folder_);
    auto [config, spec] = model::read_model_folder(folder_);
    spec_ = std::move(spec);
    checkpoint_.emplace(checkpoint::Checkpoint::open(folder_));
    checkpoint::settle_stored(*checkpoint_, spec_);
    checkpoint::settle_kept(config, &*checkpoint_, {.activations = activations}, spec_);
    reader_.emplace(*checkpoint_, spec_);
  }

  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }

  Answers answers(const Width& width, DType dtype) {
    engine::EngineOptions options = options_with(16, 80, 400, dtype);
    options.copies = width.copies;
    options.tensor_ranks = width.tensor;
    options.max_model_len = std::min<int64_t>(options.max_model_len, spec_.max_position);
    const std::vector<shard::StageModel> models = shard::stage_models(
        spec_,
        {.tensor_parallel = width.tensor, .pipeline_parallel = width.stages, .dtype = dtype});
    std::vector<std::unique_ptr<backend::Backend>> backends;
    std::vector<std::unique_ptr<checkpoint::CountedSource>> sources;
    std::vector<std::unique_ptr<shard::RankSource>> shares;
    std::vector<engine::Rank> ranks;
    const auto tensor = static_cast<size_t>(width.tensor);
    for (size_t i = 0; i < models.size() * tensor * static_cast<size_t>(width.copies); ++i) {
      const shard::StageModel& stage = models[i / tensor % models.size()];
      const shard::TensorRank share{static_cast<int64_t>(i % tensor), width.tensor};
      backends.push_back(cpu_backend());
      sources.push_back(std::make_unique<checkpoint::CountedSource>(*reader_));
      shares.push_back(
          std::make_unique<shard::RankSource>(*sources.back(), spec_, stage.spec, share));
      ranks.push_back({&stage.spec, stage.first_layer, backends.back().get(),
                       width.tensor > 1
                           ? static_cast<const checkpoint::WeightSource*>(shares.back().get())
                           : sources.back().get()});
    }
    engine::Engine engine(spec_, ranks, nullptr, options);
    read_.clear();
    for (const auto& source : sources) read_.push_back(source->bytes_read());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      for (const engine::MeasuredRegion& region : engine.measured(rank)) {
        INFO("rank " << rank << ", " << region.name);
        CHECK(region.placed_bytes == region.planned_bytes);
      }
    }
    std::vector<engine::Request> requests = mixed_requests(spec_.vocab_size);
    std::erase_if(requests, [&](engine::Request& request) {
      request.sampling.stop.clear();  // there is no tokenizer
      request.sampling.detokenize = false;
      return std::ssize(request.prompt) + request.sampling.max_tokens > options.max_model_len;
    });
    return print_all(run_all(engine, std::move(requests)));
  }

  /// Has plain weights quantised while they are read.
  void quantise(const char* method) {
    quantization::assign_online(method, quantization::Activations::rounded, spec_);
  }

  /// Bytes of the checkpoint that each rank of the last launch read.
  [[nodiscard]] const std::vector<uint64_t>& read() const { return read_; }
  [[nodiscard]] uint64_t bytes_of(const std::string& weight_name) const {
    for (const model::WeightSpec& weight : spec_.weights) {
      if (weight.name == weight_name) {
        return reader_->stored_bytes(weight, int64_t{0}, weight.matrices() * weight.rows());
      }
    }
    return 0;
  }

 private:
  test::Scratch scratch_;
  std::filesystem::path folder_;
  model::ModelSpec spec_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  std::optional<checkpoint::WeightReader> reader_;
  std::vector<uint64_t> read_;
};

}  // namespace plimsoll::testing
