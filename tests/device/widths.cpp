// With --deterministic ranks of devices answer with the bits of one, at every width.
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

namespace {

enum class Order : uint8_t { fixed, free };

/// A few, of which logits are all told by the log probabilities that they give; in emulation fewer
/// of mixtures, whose tiles take long.
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

/// What so many ranks say, floats by their bits.
Answers answers(const RankSubject& subject, int64_t tensor, DType dtype, Order order,
                Talk talk = Talk::over_peers) {
  INFO(tensor << " ranks");
  const Devices devices(tensor, talk);
  EngineOptions options = testing::options_with(3, 32, 40, dtype);
  options.capture_sizes = std::vector<int64_t>{2};
  options.tensor_ranks = tensor;
  const RankParts parts(subject.spec(), subject.reader(), {.tensor = tensor}, dtype,
                        devices.backends(order == Order::fixed));
  Engine engine(subject.spec(), parts.ranks(), nullptr, options);
  Answers answers = testing::print_all(testing::run_all(engine, told_requests(subject.spec())));
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

/// Of the widths named those that the model's shapes allow, all of which are few.
void check_widths(const std::string& folder, DType dtype, const std::vector<int64_t>& widths,
                  Talk talk = Talk::over_peers) {
  INFO(folder << ", " << torch_name(dtype));
  const RankSubject subject(golden(folder));
  const Answers expected = answers(subject, 1, dtype, Order::fixed);
  REQUIRE(expected.size() > 1);
  int shared = 0;
  for (const int64_t tensor : widths) {
    if (!shard::tensor_refusal(subject.spec(), tensor).empty()) continue;
    ++shared;
    INFO(tensor << " ranks");
    const Answers found = answers(subject, tensor, dtype, Order::fixed, talk);
    for (const auto& [tag, text] : expected) CHECK(found.at(tag) == text);
  }
  CHECK(shared > 0);
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
  CHECK(answers(subject, 1, DType::bf16, Order::free) !=
        answers(subject, 2, DType::bf16, Order::free));
}

TEST_CASE("deterministic mixtures on ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("models/qwen3_moe", DType::bf16, {2});
}

TEST_CASE("deterministic recurrent layers on ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("models/mamba", DType::f16, {2});
}

TEST_CASE("deterministic quantised models on ranks of devices answer with the bits of one") {
  if (!testing::has_device()) return;
  check_widths("quantized/llama_awq", DType::bf16, {2});  // which cut groups
}

TEST_CASE("deterministic ranks of devices round their inputs by what is largest in all of a row") {
  if (!testing::has_device()) return;
  check_widths("quantized/llama_w8a8_int8", DType::bf16, {2});
}

TEST_CASE("all deterministic models on ranks of devices answer with the bits of one",
          "[everything]") {
  if (!testing::may_do_everything()) return;
  for (const char* set : {"models", "more_models", "quantized"}) {
    for (const auto& entry : std::filesystem::directory_iterator(golden(set))) {
      const std::string folder = set + ("/" + entry.path().filename().string());
      DYNAMIC_SECTION(folder) {
        if (!shard::tensor_refusal(RankSubject(entry.path()).spec(), 2).empty()) continue;
        for (const DType dtype : {DType::bf16, DType::f32}) check_widths(folder, dtype, {2, 4, 8});
      }
    }
  }
}
