// Weights that are quantised while they are read: --quantization fp8.
#include "quantization/online.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "base/float8.h"
#include "conformance/rank_subject.h"

using namespace plimsoll;
using testing::Answers;

namespace {

/// Reads the rows of some weights rounded to fp8 and back, each by its own scale.
class RoundedRows final : public checkpoint::WeightSource {
 public:
  RoundedRows(const checkpoint::WeightSource& source, std::set<std::string> names)
      : source_(source), names_(std::move(names)) {}

  void read_rows(const model::WeightSpec& weight, int64_t first, int64_t count, DType dtype,
                 void* to) const override {
    source_.read_rows(weight, first, count, dtype, to);
    if (!names_.contains(weight.name)) return;
    REQUIRE(dtype == DType::f32);
    for (int64_t i = 0; i < count; ++i) {
      float* const row = static_cast<float*>(to) + i * weight.columns();
      float most = 0;
      for (int64_t n = 0; n < weight.columns(); ++n) most = std::max(most, std::fabs(row[n]));
      const float scale = most / kLargestE4m3;
      for (int64_t n = 0; n < weight.columns(); ++n)
        row[n] = round_to_e4m3(row[n] * (1 / scale)) * scale;
    }
  }

 private:
  const checkpoint::WeightSource& source_;
  std::set<std::string> names_;
};

std::vector<std::string> answers_of(const model::ModelSpec& spec,
                                    const checkpoint::WeightSource& source) {
  const auto cpu = testing::cpu_backend();
  engine::EngineOptions options = testing::options_with(4, 64, 64, DType::f32);
  options.max_model_len = std::min<int64_t>(options.max_model_len, spec.max_position);
  engine::Engine engine(spec, source, *cpu, nullptr, options);
  std::vector<engine::Request> requests = testing::mixed_requests(spec.vocab_size);
  requests.resize(4);
  for (engine::Request& request : requests) {
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 30));
    request.sampling = engine::SamplingParams();
    request.sampling.max_tokens = 6;
    request.sampling.temperature = 0;
    request.sampling.detokenize = false;
  }
  std::vector<std::string> answers;
  for (const auto& [tag, output] : testing::run_all(engine, requests)) {
    REQUIRE_FALSE(output.failure);
    for (const engine::Completion& one : output.completions)
      answers.push_back(fmt::format("{}", fmt::join(one.token_ids, " ")));
  }
  return answers;
}

}  // namespace

TEST_CASE("quantised while they are read, rows have their own scales, however they are stored") {
  const std::string name = GENERATE("models/llama", "models/qwen3_moe", "more_models/gpt_oss");
  INFO(name);
  const testing::RankSubject subject(std::filesystem::path(PLIMSOLL_SOURCE_DIR) /
                                     "tests/data/golden" / name);
  model::ModelSpec quantised = subject.spec();
  quantization::assign_online("fp8", quantization::Activations::whole, quantised);
  std::set<std::string> names;
  for (const model::WeightSpec& weight : quantised.weights)
    if (weight.is_packed()) names.insert(weight.name);
  REQUIRE(names.size() >= 4);
  const RoundedRows rounded(subject.reader(), names);
  CHECK(answers_of(quantised, subject.reader()) == answers_of(subject.spec(), rounded));
}
