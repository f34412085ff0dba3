// The engine on a device of its own memory, without hardware: the same answers as on the CPU.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/step_nodes.h"
#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/test_device.h"
#include "engine/tiny_model.h"
#include "like_cases.h"
#include "memory/device_overheads.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using Catch::Contains;
using testing::greedy;
using testing::mixed_requests;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TestDevice;
using testing::TestDeviceFootprint;
using testing::TinyModel;
using Habits = TestDeviceFootprint::Habits;

namespace {

/// Mixed requests, of which some end by what they say.
std::vector<Request> ending_requests(int64_t vocab_size) {
  std::mt19937 random(6);
  std::vector<Request> requests = mixed_requests(vocab_size);
  for (Request& request : requests) {
    if (request.tag % 5 != 2) continue;
    for (int i = 0; i < 40; ++i) {
      request.sampling.stop_token_ids.push_back(
          static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size)));
    }
  }
  return requests;
}

bool read_by_host(const Request& request) {
  return request.sampling.logprobs || request.sampling.prompt_logprobs;
}

/// Nodes of a recorded step that a plan counts.
int64_t planned_nodes(const model::ModelSpec& spec) {
  return memory::graph_nodes(
      {.layers = std::ssize(spec.layers), .more_nodes = backend::more_step_nodes(spec, false)});
}

/// A test device over all cores.
struct Device {
  explicit Device(Habits habits) : footprint(backend::cpu_footprint(), habits) {}
  std::unique_ptr<backend::Backend> cpu = testing::cpu_backend();
  TestDeviceFootprint footprint;
  TestDevice backend{footprint, *cpu};
};

}  // namespace

TEST_CASE("a device gives the CPU's answers") {
  const std::string name = GENERATE(
      from_range(testing::names_taken({"llama", "mistral_swa", "gemma2", "qwen3_5", "mamba"}, 3)));
  TinyModel model(name);
  const bool recurrent = model.spec().is_recurrent();
  const DType dtype = name == "llama" ? DType::bf16 : DType::f32;
  std::vector<Request> requests = ending_requests(model.spec().vocab_size);
  const text::Tokenizer tokenizer = testing::byte_tokenizer(model.folder());
  EngineOptions alone = options_with(1, 256, 64, dtype);
  alone.prefix_caching = false;
  for (TokenId id = 0; id < 30; ++id) alone.eos_token_ids.push_back(7 * id);
  const auto expected = print_all(run_all(*model.engine(alone, &tokenizer), requests));

  std::mt19937 random(10);
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  const int64_t few = name == "gemma2" ? 24 : 12;
  uint64_t preemptions = 0, cached = 0;
  int64_t replays = 0, overlaps = 0, drawn = 0;
  const int runs = testing::times(name == "llama" ? 12 : recurrent ? 4 : 6, 4);
  for (int run = 0; run < runs; ++run) {
    std::shuffle(requests.begin(), requests.end(), random);
    const Habits habits{.draws = run % 8 != 3,
                        .ahead = run % 4 == 1 ? 0 : 1,
                        .records = run % 8 != 3 && run % 3 != 2,
                        .largest_top_k = pick({5, 1024}),
                        // A product's parts as one op change no bit.
                        .fused_rows = run % 2 == 0 ? 8 : 0};
    Device device(habits);
    EngineOptions options =
        options_with(pick({3, 16, 24, 64}), pick({64, 80, 128, 500}), pick({24, 50, 1000}), dtype);
    if (run == 0) options = options_with(24, 64, few, dtype);
    options.eos_token_ids = alone.eos_token_ids;
    options.prefix_caching = run % 3 != 1;
    options.admission = run % 4 < 2 ? Admission::next_step : Admission::forecast;
    options.threads = pick({1, 2});
    if (run % 2 == 1) options.capture_sizes = std::vector<int64_t>{2, 5, 20};
    const auto engine = model.engine_on(device.backend, options, &tokenizer);
    // Rows that the host reads hold up all others: half of the runs are without.
    std::vector<Request> asked = requests;
    if (run % 2 == 0) std::erase_if(asked, read_by_host);
    const auto found = print_all(run_all(*engine, asked));
    INFO(name << " run " << run << ": " << options.max_num_seqs << " sequences, "
              << options.max_num_batched_tokens << " tokens, " << *options.num_kv_blocks
              << " blocks, " << engine->stats().preemptions << " preemptions");
    REQUIRE(found.size() == asked.size());
    for (const auto& [tag, text] : found) {
      INFO("line " << tag);
      REQUIRE(expected.at(tag) == text);
    }
    const EngineStats& stats = engine->stats();
    CHECK(stats.kv_blocks_used == 0);
    CHECK(stats.running == 0);
    CHECK(device.backend.recorded() == engine->plan().recorded_sizes.size());
    CHECK(device.backend.most_recorded_ops() <= planned_nodes(model.spec()));
    if (habits.ahead == 0) CHECK(device.backend.overlaps() == 0);
    preemptions += stats.preemptions;
    cached += stats.cached_prompt_tokens;
    replays += device.backend.replays();
    overlaps += device.backend.overlaps();
    drawn += device.backend.drawn_tokens();
  }
  INFO(name);
  CHECK((cached > 0) == !recurrent);
  CHECK(replays > 40);
  CHECK(overlaps > 40);
  CHECK(drawn > 1000);
  if (name != "mistral_swa" && name != "mamba") CHECK(preemptions > 0);  // Mamba has no cache
}

TEST_CASE("penalties and masks hold up no step") {
  TinyModel model("llama");
  const int64_t vocabulary = model.spec().vocab_size;
  Request usual = greedy(0, {17, 23, 42, 17, 99}, 24);
  const auto free = run_all(*model.engine(options_with(4, 64, 100, DType::bf16)), {usual});
  const std::vector<TokenId> tokens = free.at(0).completions[0].token_ids;
  std::vector<Request> requests;
  const auto add = [&](const auto& change) {
    Request request = usual;
    request.tag = requests.size();
    change(request.sampling);
    requests.push_back(std::move(request));
  };
  add([](SamplingParams& p) { p.repetition_penalty = 1.3; });
  add([](SamplingParams& p) { p.frequency_penalty = 0.9; });
  add([](SamplingParams& p) { p.presence_penalty = -1.1; });
  // Every token but two is seen again and again: what was drawn last counts at once.
  add([](SamplingParams& p) {
    p.frequency_penalty = 2;
    p.allowed_token_ids = {9, 3, 9};
  });
  add([&](SamplingParams& p) { p.bad_words = {{tokens[0], tokens[1]}, {tokens[3]}}; });
  add([&](SamplingParams& p) { p.bad_words = {{tokens[1], tokens[2], tokens[3]}}; });
  add([&](SamplingParams& p) {
    p.stop_token_ids = {tokens[1], tokens[2]};
    p.min_tokens = 6;
  });
  add([&](SamplingParams& p) {
    for (TokenId id = 0; id < vocabulary; id += 2) p.logit_bias[id] = id % 5 - 2.5;
  });
  const auto expected =
      print_all(run_all(*model.engine(options_with(8, 64, 100, DType::bf16)), requests));
  for (const bool records : {false, true}) {
    Device device({.records = records});
    const auto engine = model.engine_on(device.backend, options_with(8, 64, 100, DType::bf16));
    const int64_t at_launch = device.backend.overlaps();
    const int64_t drawn = device.backend.drawn_tokens();
    CHECK(print_all(run_all(*engine, requests)) == expected);
    // All are drawn on the device, each step while the one before it is under way.
    CHECK(device.backend.drawn_tokens() - drawn >=
          static_cast<int64_t>(engine->stats().generated_tokens));
    CHECK(device.backend.overlaps() - at_launch > 20);
    if (records) CHECK(device.backend.replays() > 20);
  }
}

TEST_CASE("a row whose changes find no room is read by the host") {
  TinyModel model("llama");
  std::vector<Request> requests;
  for (uint64_t tag = 0; tag < 3; ++tag) {
    requests.push_back(greedy(tag, {1, 2, 3}, 6));
    // Words for every token, many times over: there is room for one such list.
    for (int i = 0; i < 2600; ++i) {
      requests[tag].sampling.bad_words.push_back({static_cast<TokenId>(i % 90)});
    }
  }
  const EngineOptions options = options_with(3, 64, 100, DType::bf16);
  const auto expected = print_all(run_all(*model.engine(options), requests));
  Device device({});
  CHECK(print_all(run_all(*model.engine_on(device.backend, options), requests)) == expected);
}

TEST_CASE("masks that leave no token are told by a device too") {
  TinyModel model("llama");
  Request request = greedy(0, {1, 2, 3}, 6);
  request.sampling.allowed_token_ids = {5, 7};
  request.sampling.bad_words = {{5}, {7}};
  Device device({});
  const auto engine = model.engine_on(device.backend, options_with(3, 64, 100, DType::bf16));
  CHECK(run_all(*engine, {request}).at(0).failure.value().code == "bad_field");
}

TEST_CASE("the same requests on a device give the same schedule") {
  TinyModel model("llama");
  const auto steps = [&] {
    Device device({});
    const auto engine = model.engine_on(device.backend, options_with(24, 64, 14, DType::bf16));
    run_all(*engine, mixed_requests(model.spec().vocab_size));
    const EngineStats& stats = engine->stats();
    return std::vector<uint64_t>{stats.steps, stats.preemptions, stats.prompt_tokens,
                                 stats.cached_prompt_tokens, stats.generated_tokens};
  };
  CHECK(steps() == steps());
}

TEST_CASE("running ahead costs a sequence no step at its end by length") {
  TinyModel model("llama");
  Device device({.records = false});
  const auto engine = model.engine_on(device.backend, options_with(4, 64, 100, DType::bf16));
  const int64_t at_launch = device.backend.drawn_tokens();
  run_all(*engine, {greedy(0, {1, 2, 3}, 9)});
  CHECK(device.backend.drawn_tokens() - at_launch == 9);
  CHECK(engine->stats().steps == 9);
  CHECK(engine->stats().generated_tokens == 9);
}

TEST_CASE("a token that ends its sequence is one step late") {
  TinyModel model("llama");
  Device device({.records = false});
  EngineOptions options = options_with(4, 64, 100, DType::bf16);
  Request request = greedy(0, {17, 23, 42, 99}, 20);
  const auto answer = run_all(*model.engine_on(device.backend, options), {request});
  const std::vector<TokenId> tokens = answer.at(0).completions[0].token_ids;
  REQUIRE(std::count(tokens.begin(), tokens.begin() + 5, tokens[5]) == 0);
  request.sampling.stop_token_ids = {tokens[5]};
  const auto engine = model.engine_on(device.backend, options);
  const auto cut = run_all(*engine, {request});
  CHECK(cut.at(0).completions[0].token_ids ==
        std::vector<TokenId>(tokens.begin(), tokens.begin() + 6));
  CHECK(engine->stats().steps == 7);  // the seventh for nothing
  CHECK(engine->stats().generated_tokens == 6);
}

TEST_CASE("not a number on the device costs the request that it happens in") {
  TinyModel model("llama");
  testing::spoil_row(model.folder() / "model.safetensors", "model.embed_tokens.weight", 77,
                     model.spec().hidden_size);
  model.open();
  Device device({});
  const auto engine = model.engine_on(device.backend, options_with(8, 64, 200, DType::f32));
  std::vector<Request> requests = {greedy(0, {5, 6, 77, 8}, 4), greedy(1, {5, 6, 7, 8}, 4),
                                   greedy(2, {77}, 4), greedy(3, {9, 77, 9}, 4)};
  requests[0].sampling.n = 3;
  const auto outputs = run_all(*engine, requests);
  REQUIRE(outputs.size() == 4);
  CHECK(outputs.at(0).failure.value().code == "numeric");
  CHECK_FALSE(outputs.at(1).failure);
  CHECK(outputs.at(2).failure.value().code == "numeric");
  CHECK(outputs.at(3).failure.value().code == "numeric");
  CHECK(engine->stats().running == 0);
  CHECK(engine->stats().kv_blocks_used == 0);
}

TEST_CASE("an engine may go while a step is under way") {
  TinyModel model("llama");
  Device device({});
  const auto engine = model.engine_on(device.backend, options_with(4, 64, 100, DType::bf16));
  engine->add(greedy(0, {1, 2, 3}, 9));
  std::vector<RequestOutput> finished;
  engine->step(finished);
  engine->step(finished);
  CHECK(finished.empty());
}

TEST_CASE("the cache may be of another type than the model") {
  TinyModel model("llama");
  EngineOptions options = options_with(4, 64, 100, DType::f32);
  options.kv_dtype = DType::bf16;
  Device device({});
  const auto engine = model.engine_on(device.backend, options);
  CHECK(engine->plan().kv_dtype == DType::bf16);
  CHECK(run_all(*engine, {greedy(0, {1, 2, 3}, 9)}).at(0).completions[0].token_ids.size() == 9);
  CHECK_THROWS_WITH(model.engine(options),
                    Contains("--kv-cache-dtype bfloat16") && Contains("the cpu backend"));
}

TEST_CASE("random weights need no checkpoint") {
  TinyModel model("llama");
  EngineOptions options = options_with(4, 64, 100, DType::bf16);
  const auto run = [&](backend::Backend& backend) {
    Engine engine(model.spec(), backend, nullptr, options);
    Request request = greedy(0, {1, 2, 3}, 9);
    request.sampling.logprobs = 2;
    return print_all(run_all(engine, {request}));
  };
  Device device({});
  const auto cpu = testing::cpu_backend();
  const auto found = run(*cpu);
  CHECK(run(device.backend) == found);
  options.seed = 1;
  CHECK(run(*cpu) != found);
}
