// Ranks of devices answer with the bits of one, at every width, with --deterministic.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "conformance/rank_subject.h"
#include "device/devices.h"
#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "kernels/runtime/device.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::Answers;
using testing::Devices;
using testing::RankParts;
using testing::RankSubject;
using testing::Talk;
using testing::Width;

namespace {

enum class Order : uint8_t { fixed, free };

/// A few requests whose logits all show in the log probabilities that they ask for; in emulation
/// fewer for mixtures, whose tiles take long.
std::vector<Request> told_requests(const model::ModelSpec& spec) {
  const bool few = spec.layers.back().has_experts() && !testing::does_everything();
  std::vector<Request> requests = testing::mixed_requests(spec.vocab_size);
  requests.resize(few ? 2 : 3);
  for (Request& request : requests) {
    SamplingParams& sampling = request.sampling;
    sampling.max_tokens = few ? 2 : 3;
    sampling.n = 1;
    sampling.logprobs = sampling.prompt_logprobs = 4;
    request.prompt.resize(std::min<size_t>(request.prompt.size(), few ? 5 : 18));
    sampling.stop.clear();
    sampling.detokenize = false;
  }
  return requests;
}

/// Answers of so many ranks, floats by their bits.
Answers answers(const RankSubject& subject, const Width& width, DType dtype, Order order,
                Talk talk = Talk::over_peers) {
  const int64_t tensor = width.tensor;
  INFO(tensor << " ranks" << (width.whole_experts ? ", experts whole" : ""));
  model::ModelSpec spec = subject.spec();
  spec.whole_experts = width.whole_experts;
  const Devices devices(tensor, talk);
  EngineOptions options = testing::options_with(3, 32, 40, dtype);
  options.capture_sizes = std::vector<int64_t>{2};
  options.tensor_ranks = tensor;
  const RankParts parts(spec, subject.reader(), width, dtype,
                        devices.backends(order == Order::fixed));
  Engine engine(spec, parts.ranks(), nullptr, options);
  Answers answers = testing::print_all(testing::run_all(engine, told_requests(spec)));
  CHECK(kernels::allocations_since_seal().device == 0);
  CHECK(kernels::allocations_since_seal().kernels == 0);
  for (size_t rank = 0; rank < engine.ranks(); ++rank) {
    for (const MeasuredRegion& region : engine.measured(rank)) {
      INFO("rank " << rank << ", " << region.name);
      CHECK(region.placed_bytes == region.planned_bytes);
    }
  }
  return answers;
}

std::filesystem::path golden(const std::string& folder) {
  return std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden" / folder;
}

/// Whether each of so many ranks may have some experts whole.
bool has_experts_for(const model::ModelSpec& spec, int64_t ranks) {
  const model::LayerSpec& layer = spec.layers.back();
  return layer.has_experts() && layer.mlp.experts % ranks == 0;
}

/// Checks the widths that the model's shapes allow, out of a few. Experts are checked both cut and
/// divided whole.
void check_widths(const RankSubject& subject, DType dtype, const std::vector<int64_t>& widths,
                  Talk talk) {
  const Answers expected = answers(subject, {}, dtype, Order::fixed);
  REQUIRE(expected.size() > 1);
  int shared = 0;
  for (const int64_t tensor : widths) {
    if (!shard::tensor_refusal(subject.spec(), tensor).empty()) continue;
    ++shared;
    INFO(tensor << " ranks");
    for (const bool whole : {false, true}) {
      if (whole && !has_experts_for(subject.spec(), tensor)) continue;
      INFO((whole ? "experts whole" : "all cut"));
      const Width width{.tensor = tensor, .whole_experts = whole};
      const Answers found = answers(subject, width, dtype, Order::fixed, talk);
      for (const auto& [tag, text] : expected) CHECK(found.at(tag) == text);
    }
  }
  CHECK(shared > 0);
}

/// Checks the widths of a model of the golden results.
void check_widths(const std::string& folder, DType dtype, const std::vector<int64_t>& widths,
                  Talk talk = Talk::over_peers) {
  INFO(folder << ", " << torch_name(dtype));
  check_widths(RankSubject(golden(folder)), dtype, widths, talk);
}
using Changes = std::vector<std::pair<std::string, std::string>>;

/// A model of the golden results with other texts in one of its files.
std::filesystem::path changed(const test::Scratch& scratch, const std::string& folder,
                              const std::string& file, const Changes& changes) {
  std::filesystem::copy(golden(folder), scratch.path("changed"));
  std::string text = scratch.read("changed/" + file);
  for (const auto& [from, to] : changes) {
    REQUIRE(text.find(from) != std::string::npos);
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  scratch.write("changed/" + file, text);
  return scratch.path("changed");
}

}  // namespace

TEST_CASE("a deterministic model on ranks of devices answers with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("models/llama", DType::bf16, {2, 4});
}

TEST_CASE("a deterministic model answers with these bits where ranks talk over NCCL") {
  if (!testing::has_device()) return;
  check_widths("models/llama", DType::bf16, {2, 4}, Talk::over_nccl);
}

TEST_CASE("bits of ranks in free order are those of one width", "[everything]") {
  if (!testing::may_do_everything()) return;
  const RankSubject subject(golden("models/llama"));
  CHECK(answers(subject, {}, DType::bf16, Order::free) !=
        answers(subject, {.tensor = 2}, DType::bf16, Order::free));
}

TEST_CASE("deterministic mixtures on ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("models/qwen3_moe", DType::bf16, {2});
}

TEST_CASE("deterministic recurrent layers on ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("models/mamba", DType::f16, {2});
}

TEST_CASE("deterministic quantized models on ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("quantized/llama_awq", DType::bf16, {2});  // which cut groups
  check_widths("gguf/run/llama_q5_0", DType::bf16, {2});
}

TEST_CASE("deterministic ranks of devices round their inputs by what is largest in all of a row") {
  if (!testing::has_device()) return;
  check_widths("quantized/llama_w8a8_int8", DType::bf16, {2});
}

// Shares in which groups of the stated order have more inputs than their share, or fewer.
TEST_CASE("deterministic ranks of devices have inputs of any group in an activation order") {
  if (!testing::has_device()) return;
  const test::Scratch scratch;
  const RankSubject subject(
      changed(scratch, "quantized/llama_gptq_act_order", "recipe.json", {{"(i * 5)", "(i * 3)"}}));
  check_widths(subject, DType::f16, {2}, Talk::over_peers);
}

TEST_CASE("eight deterministic ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  const test::Scratch scratch;  // with the same weights, in more heads
  const RankSubject subject(changed(scratch, "models/llama", "config.json",
                                    {{"\"head_dim\": 64", "\"head_dim\": 32"},
                                     {"attention_heads\": 4", "attention_heads\": 8"},
                                     {"key_value_heads\": 2", "key_value_heads\": 4"}}));
  check_widths(subject, DType::bf16, {8}, Talk::over_peers);
}

TEST_CASE("deterministic experts that are quantized answer with the bits of one", "[everything]") {
  if (!testing::may_do_everything()) return;
  RankSubject subject(golden("models/qwen3_moe"));
  subject.quantize("fp8");
  check_widths(subject, DType::bf16, {2}, Talk::over_peers);
}

TEST_CASE("all deterministic models on ranks of devices answer with the bits of one",
          "[everything]") {
  if (!testing::may_do_everything()) return;
  for (const char* set : {"models", "more_models", "quantized", "gguf/run"}) {
    for (const auto& entry : std::filesystem::directory_iterator(golden(set))) {
      const std::string folder = set + ("/" + entry.path().filename().string());
      DYNAMIC_SECTION(folder) {
        if (!shard::tensor_refusal(RankSubject(entry.path()).spec(), 2).empty()) continue;
        for (const DType dtype : {DType::bf16, DType::f32}) check_widths(folder, dtype, {2, 4, 8});
      }
    }
  }
}
