// Weights in fp8, quantized while they are read or stored so, answer as plain ones that were
// rounded before.
#include <catch2/catch.hpp>

#include "conformance/rank_subject.h"
#include "conformance/rounded_weights.h"

using namespace plimsoll;
namespace fs = std::filesystem;

namespace {

/// A model's folder, read as a launch reads it.
struct Opened {
  model::ModelSpec spec;
  checkpoint::Checkpoint checkpoint;

  explicit Opened(const fs::path& folder) : checkpoint(checkpoint::Checkpoint::open(folder)) {
    auto [config, read] = model::read_model_folder(folder);
    spec = std::move(read);
    checkpoint::resolve_stored(checkpoint, spec);
    checkpoint::resolve_kept(config, &checkpoint, {.activations = quantization::Activations::whole},
                             spec);
  }
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

TEST_CASE("quantized while they are read, rows have their own scales, however they are stored") {
  const std::string name = GENERATE("models/llama", "models/qwen3_moe", "more_models/gpt_oss");
  INFO(name);
  const testing::RankSubject subject(std::filesystem::path(PLIMSOLL_SOURCE_DIR) /
                                     "tests/data/golden" / name);
  model::ModelSpec quantized = subject.spec();
  quantization::assign_online("fp8", quantization::Activations::whole, quantized);
  const std::set<std::string> names = testing::packed_weights(quantized);
  REQUIRE(names.size() >= 4);
  const testing::RoundedRows rounded(subject.reader(), names);
  CHECK(answers_of(quantized, subject.reader()) == answers_of(subject.spec(), rounded));
}

TEST_CASE("layers that are stored in fp8 are those of their rounded weights, hybrids' too") {
  const std::string name =
      GENERATE("models/internlm2", "models/qwen3_moe", "models/qwen3_5", "models/lfm2",
               "models/mamba", "more_models/kimi_linear", "more_models/zamba2");
  INFO(name);
  const testing::TempFolder folder;
  const fs::path plain_folder = folder.path / "plain", rounded_folder = folder.path / "rounded";
  testing::write_checkpoint(fs::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden" / name,
                            plain_folder);
  testing::write_rounded(plain_folder, rounded_folder);
  const Opened plain(plain_folder), rounded(rounded_folder);
  const std::set<std::string> names = testing::packed_weights(rounded.spec);
  REQUIRE(names.size() >= 4);
  const checkpoint::WeightReader whole(plain.checkpoint, plain.spec);
  const checkpoint::WeightReader stored(rounded.checkpoint, rounded.spec);
  CHECK(answers_of(rounded.spec, stored) ==
        answers_of(plain.spec, testing::RoundedRows(whole, names)));
}
