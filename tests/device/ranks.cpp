// One model on several ranks of devices. In float32 they say what one rank on the CPU says; where
// there are fewer devices than ranks these share one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "backend/device.h"
#include "batch/scratch.h"
#include "conformance/image_model.h"
#include "conformance/rank_subject.h"
#include "device/devices.h"
#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "grammar/compiler.h"
#include "kernels/runtime/device.h"
#include "quantization/online.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::Devices;
using testing::mixed_requests;
using testing::options_with;
using testing::RankParts;
using testing::run_all;
using testing::Talk;
using testing::TinyModel;
using testing::Tokens;
using testing::tokens_of;
using testing::Width;

namespace {

/// drawn: by the device alone, so that steps run ahead, for long enough that what one draws is an
/// input of those after it. masked: those, every other one by a grammar.
enum class Requests : uint8_t { mixed, drawn, masked };

std::vector<Request> short_requests(int64_t vocab_size, Requests kind) {
  const bool drawn = kind != Requests::mixed;
  std::vector<Request> requests = mixed_requests(vocab_size);
  requests.resize(4);
  for (Request& request : requests) {
    engine::SamplingParams& sampling = request.sampling;
    sampling.max_tokens = std::min<int64_t>(sampling.max_tokens, 4);
    request.prompt.resize(std::min<size_t>(request.prompt.size(), 20));
    sampling.stop.clear();
    sampling.detokenize = false;
    if (!drawn) continue;
    sampling.max_tokens = 10;
    sampling.logprobs.reset();
    sampling.prompt_logprobs.reset();
    sampling.repetition_penalty = 1.1;
  }
  return requests;
}

/// Answers of the ranks are those of one on the CPU.
void check_width(const model::ModelSpec& whole, const checkpoint::WeightReader& reader,
                 const Width& width, bool recorded, Requests kind = Requests::mixed,
                 Talk talk = Talk::over_peers) {
  INFO(width.tensor << " x " << width.stages << " x " << width.replicas
                    << (recorded ? ", recorded" : "")
                    << (width.whole_experts ? ", experts whole" : ""));
  model::ModelSpec spec = whole;
  spec.whole_experts = width.whole_experts;
  const Devices devices(width.tensor * width.stages * width.replicas, talk);
  if (devices.none()) return;
  std::vector<Request> requests = short_requests(spec.vocab_size, kind);
  const test::Scratch folder;
  const text::Tokenizer tokenizer = testing::byte_tokenizer(folder.path(""), {"ab", "cd"});
  grammar::Compiler compiler(tokenizer, {.vocab_size = spec.vocab_size});
  for (size_t i = 0; kind == Requests::masked && i < requests.size(); i += 2)
    requests[i].sampling.grammar =
        compiler.compile({.kind = grammar::Constraint::Kind::regex, .text = "([a-d]{3}[0-9]){6}"});
  EngineOptions alone = options_with(1, 64, 64, DType::f32);
  alone.prefix_caching = false;
  const auto cpu = testing::cpu_backend();
  Engine one(spec, reader, *cpu, nullptr, alone);
  const Tokens expected = tokens_of(run_all(one, requests));

  EngineOptions options = options_with(4, 48, 40, DType::f32);
  options.capture_sizes = recorded ? std::vector<int64_t>{1, 2, 4} : std::vector<int64_t>{};
  options.tensor_ranks = width.tensor;
  options.replicas = width.replicas;
  const RankParts parts(spec, reader, width, DType::f32, devices.backends());
  Engine engine(spec, parts.ranks(), nullptr, options);
  CHECK(tokens_of(run_all(engine, requests)) == expected);
  CHECK(kernels::allocations_since_seal().device == 0);
  for (size_t rank = 0; rank < engine.ranks(); ++rank) {
    for (const MeasuredRegion& region : engine.measured(rank)) {
      INFO("rank " << rank << ", " << region.name);
      CHECK(region.placed_bytes == region.planned_bytes);
    }
  }
}

void check_width(const std::string& name, const Width& width, bool recorded = false,
                 Requests kind = Requests::mixed, Talk talk = Talk::over_peers) {
  INFO(name);
  TinyModel model(name);
  check_width(model.spec(), model.reader(), width, recorded, kind, talk);
}

/// Checks a model of the golden results.
void check_golden(const std::string& folder, const Width& width, bool recorded,
                  quantization::Activations activations = quantization::Activations::whole) {
  INFO(folder);
  const testing::RankSubject subject(
      std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests/data/golden" / folder, activations);
  check_width(subject.spec(), subject.reader(), width, recorded);
}

}  // namespace

TEST_CASE("tensor-parallel ranks on devices answer as one on the CPU") {
  check_width("llama", {.tensor = 2}, false);
  check_width("llama", {.tensor = 2}, true, Requests::drawn);
  check_width("llama", {.tensor = 2}, true, Requests::masked);
}

TEST_CASE("stages and replicas on devices answer as one rank on the CPU") {
  check_width("llama", {.stages = 2});
  check_width("llama", {.replicas = 2});
}

TEST_CASE("quantized models answer on ranks of devices as on one") {
  check_golden("quantized/llama_awq_group32", {.tensor = 2}, false);
  check_golden("quantized/llama_awq", {.tensor = 2}, false);  // which cut groups
  check_golden("gguf/run/llama_nvfp4", {.tensor = 2}, false);
}

TEST_CASE("a GGUF file's plain matrices among its blocks answer on ranks of devices") {
  Json recipe = read_json_file(std::string(PLIMSOLL_SOURCE_DIR) +
                               "/tests/data/golden/gguf/run/llama_q5_0/recipe.json");
  const std::map<std::string, const char*> types = {{"token_embd.weight", "F16"},
                                                    {"blk.0.attn_q.weight", "F32"},
                                                    {"blk.1.ffn_down.weight", "F32"}};
  for (Json& tensor : recipe.at("tensors")) {
    const auto type = types.find(tensor.at("name"));
    if (type == types.end()) continue;
    tensor.erase("d");
    tensor.update({{"type", type->second}, {"mean", 0.0}, {"amplitude", 0.2}});
  }
  const test::Scratch scratch;
  scratch.write("recipe.json", recipe.dump());
  const testing::RankSubject subject(scratch.path(""));
  check_width(subject.spec(), subject.reader(), {.tensor = 2}, false);
}

TEST_CASE("ranks of devices round their inputs by what is largest in all of a row") {
  using enum quantization::Activations;
  check_golden("quantized/llama_w8a8_int8", {.tensor = 2}, true, rounded);
  check_golden("quantized/llama_fp8_block", {.tensor = 2}, false, rounded);  // which cut groups
  TinyModel mixture("qwen3_moe");
  model::ModelSpec spec = mixture.spec();
  quantization::assign_online("fp8", rounded, spec);
  check_width(spec, mixture.reader(), {.tensor = 2}, false);
}

TEST_CASE("ranks of devices have some of a mixture's experts whole") {
  check_width("qwen3_moe", {.tensor = 2, .whole_experts = true}, true);
}

TEST_CASE("ranks of devices encode images in turn and have them all") {
  const Width width{.tensor = 2};
  const Devices devices(2);
  if (devices.none()) return;
  testing::ImageModel model(std::filesystem::path(PLIMSOLL_SOURCE_DIR) /
                            "tests/data/golden/multimodal_run/internvl2_qwen2");
  std::vector<Request> requests = model.requests({"two_images", "text"});
  for (Request& request : requests) {
    request.sampling.max_tokens = 4;
    request.sampling.prompt_logprobs.reset();
    request.sampling.logprobs.reset();
  }
  EngineOptions options = model.options({.dtype = DType::f32});
  options.max_num_seqs = 2;
  options.num_kv_blocks = 64;
  const auto cpu = testing::cpu_backend();
  const Tokens expected = tokens_of(run_all(*model.engine_on(*cpu, options), requests));

  options.tensor_ranks = width.tensor;
  options.capture_sizes = std::vector<int64_t>{1};
  const RankParts parts(model.spec(), model.weights(), width, DType::f32, devices.backends());
  Engine engine(model.spec(), parts.ranks(), nullptr, options);
  CHECK(tokens_of(run_all(engine, requests)) == expected);
  CHECK(engine.stats().encoded_images == 2);
  CHECK(kernels::allocations_since_seal().device == 0);
}

TEST_CASE("mixtures and recurrent models answer on ranks of devices as on one", "[everything]") {
  if (!testing::may_do_everything()) return;
  for (const std::string name : {"qwen3_moe", "gemma2", "mamba", "qwen3_5", "mixtral"}) {
    for (const int64_t tensor : {2, 4}) {
      if (!shard::tensor_refusal(TinyModel(name).spec(), tensor).empty()) continue;
      check_width(name, {.tensor = tensor}, true);
      check_width(name, {.tensor = tensor, .stages = 2});
    }
    if (TinyModel(name).spec().layers.back().has_experts())
      check_width(name, {.tensor = 4, .whole_experts = true}, true);
  }
  // Norms over the heads of all ranks, thresholds over all columns.
  for (const std::string name : {"gemma3n", "kimi_linear", "minimax"}) {
    check_golden("more_models/" + name, {.tensor = 2}, true);
  }
}

#ifdef PLIMSOLL_EMULATION
TEST_CASE("tensor-parallel ranks on devices that cannot read each other's memory talk over NCCL") {
  check_width("llama", {.tensor = 2}, false, Requests::mixed, Talk::over_nccl);
  check_width("llama", {.tensor = 2}, true, Requests::drawn, Talk::over_nccl);
}

TEST_CASE("stages, mixtures and four ranks talk over NCCL", "[everything]") {
  if (!testing::may_do_everything()) return;
  check_width("llama", {.tensor = 2, .stages = 2}, false, Requests::mixed, Talk::over_nccl);
  check_width("llama", {.tensor = 4}, true, Requests::mixed, Talk::over_nccl);
  check_width("qwen3_moe", {.tensor = 2, .whole_experts = true}, true, Requests::mixed,
              Talk::over_nccl);
}

TEST_CASE("ranks over NCCL are refused where there is none") {
  const Devices devices(2, Talk::over_nccl);
  TinyModel model("llama");
  const checkpoint::WeightReader reader = model.reader();
  const RankParts parts(model.spec(), reader, {.tensor = 2}, DType::f32, [](size_t rank, size_t) {
    return backend::make_device_backend(
        {.index = static_cast<int>(rank), .threads = 1, .nccl = "/nowhere/libnccl.so.2"});
  });
  EngineOptions options = options_with(4, 48, 40, DType::f32);
  options.tensor_ranks = 2;
  CHECK_THROWS_WITH(Engine(model.spec(), parts.ranks(), nullptr, options),
                    Catch::Contains("GPU 0 cannot read the memory of GPU 1") &&
                        Catch::Contains("NCCL is missing"));
}
#endif
