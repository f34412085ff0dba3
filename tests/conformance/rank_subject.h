// A model of the golden results on as many ranks as asked.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "batch/scratch.h"
#include "checkpoint/resolve_model.h"
#include "conformance/golden_models.h"
#include "conformance/rank_parts.h"
#include "engine/engine.h"
#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "like_cases.h"
#include "model/config.h"
#include "quantization/assign.h"
#include "quantization/online.h"
#include "reference/recipe.h"

namespace plimsoll::testing {

namespace fs = std::filesystem;
using Answers = std::map<uint64_t, std::string>;

/// A model of the golden results on as many ranks as asked.
class RankSubject {
 public:
  explicit RankSubject(const std::filesystem::path& recipe,
                       quantization::Activations activations = quantization::Activations::rounded)
      : path_(write_model(recipe, scratch_.path("model"))) {
    auto [config, spec] = checkpoint::read_model(path_);
    spec_ = std::move(spec);
    checkpoint_.emplace(checkpoint::Checkpoint::open(path_));
    checkpoint::resolve_stored(*checkpoint_, spec_);
    checkpoint::resolve_kept(config, &*checkpoint_, {.activations = activations}, spec_);
    reader_.emplace(*checkpoint_, spec_);
  }

  [[nodiscard]] const model::ModelSpec& spec() const { return spec_; }
  [[nodiscard]] const checkpoint::WeightReader& reader() const { return *reader_; }

  Answers answers(const Width& width, DType dtype, int64_t blocks = 400) {
    engine::EngineOptions options = options_with(16, 80, blocks, dtype);
    if (blocks < 400) options.admission = engine::Admission::next_step;
    options.replicas = width.replicas;
    options.tensor_ranks = width.tensor;
    options.max_model_len = std::min<int64_t>(options.max_model_len, spec_.max_position);
    model::ModelSpec spec = spec_;
    spec.whole_experts = width.whole_experts;
    const RankParts parts(spec, *reader_, width, dtype);
    engine::Engine engine(spec, parts.ranks(), nullptr, options);
    read_ = parts.read();
    for (size_t rank = 0; rank < engine.ranks(); ++rank) {
      for (const engine::MeasuredRegion& region : engine.measured(rank)) {
        INFO("rank " << rank << ", " << region.name);
        CHECK(region.placed_bytes == region.planned_bytes);
      }
    }
    std::vector<engine::Request> requests = mixed_requests(spec_.vocab_size);
    std::erase_if(requests, [&](engine::Request& request) {
      if (!asks_all_ && !is_taken(request.tag, 5)) return true;
      request.sampling.stop.clear();  // there is no tokenizer
      request.sampling.detokenize = false;
      return std::ssize(request.prompt) + request.sampling.max_tokens > options.max_model_len;
    });
    Answers answers = print_all(run_all(engine, std::move(requests)));
    preemptions_ = engine.stats().preemptions;
    return answers;
  }

  void ask_all() { asks_all_ = true; }

  /// Has plain weights quantized while they are read.
  void quantize(const char* method) {
    quantization::assign_online(method, quantization::Activations::rounded, spec_);
  }

  /// Bytes of the checkpoint that each rank of the last launch read.
  [[nodiscard]] const std::vector<uint64_t>& read() const { return read_; }
  [[nodiscard]] uint64_t preemptions() const { return preemptions_; }  // of the last launch
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
  std::filesystem::path path_;  // of the folder or file
  model::ModelSpec spec_;
  std::optional<checkpoint::Checkpoint> checkpoint_;
  std::optional<checkpoint::WeightReader> reader_;
  std::vector<uint64_t> read_;
  uint64_t preemptions_ = 0;
  bool asks_all_ = false;
};

}  // namespace plimsoll::testing
