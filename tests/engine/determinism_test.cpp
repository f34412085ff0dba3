// Determinism: a line gives the same bytes whatever runs beside it and however the engine is set
// up.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::mixed_requests;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TinyModel;

TEST_CASE("outputs are equal to the last bit in any order and setting") {
  const std::string name =
      GENERATE(from_range(testing::names_taken({"llama", "mistral_swa", "gemma2", "qwen3_5",
                                                "mamba", "granitemoehybrid_dense", "glm_moe_dsa"},
                                               3)));
  TinyModel model(name);
  const DType dtype = name == "llama" ? DType::bf16 : DType::f32;
  std::vector<Request> requests = mixed_requests(model.spec().vocab_size);
  // Alone: one sequence at a time, whole prompts.
  EngineOptions alone = options_with(1, 256, 64, dtype);
  alone.prefix_caching = false;
  const auto expected = print_all(run_all(*model.engine(alone), requests));
  REQUIRE(expected.size() == requests.size());

  std::mt19937 random(9);
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  // A pool that runs short: hardly more than one sequence needs.
  const int64_t few = name == "gemma2" ? 24 : 12;
  EngineStats most;
  const int runs = testing::times(name == "llama" ? 20 : 6, 3);
  for (int run = 0; run < runs; ++run) {
    std::shuffle(requests.begin(), requests.end(), random);
    EngineOptions options =
        options_with(pick({3, 16, 24, 64}), pick({64, 80, 128, 500}), pick({24, 50, 1000}), dtype);
    if (run == 0) options = options_with(24, 64, few, dtype);
    if (run == 1) options = options_with(32, 128, 1000, dtype);
    options.prefix_caching = run % 3 != 0;
    options.admission = run % 2 == 0 ? Admission::next_step : Admission::forecast;
    options.threads = pick({1, 2, 3});
    if (!model.spec().is_recurrent()) options.ngram = {pick({0, 1, 3, 8}), pick({1, 2}), 4};
    const auto engine = model.engine(options);
    const auto found = print_all(run_all(*engine, requests));
    const EngineStats& stats = engine->stats();
    INFO(name << " run " << run << ": " << options.max_num_seqs << " sequences, "
              << options.max_num_batched_tokens << " tokens, " << *options.num_kv_blocks
              << " blocks, " << stats.preemptions << " preemptions");
    for (const auto& [tag, text] : expected) {
      INFO("line " << tag);
      REQUIRE(found.at(tag) == text);
    }
    CHECK(stats.kv_blocks_used == 0);
    CHECK(stats.kv_blocks_peak <= stats.kv_blocks);
    if (!options.prefix_caching) CHECK(stats.cached_prompt_tokens == 0);
    if (options.ngram.num_speculative_tokens == 0) CHECK(stats.drafted_tokens == 0);
    most.peak_running = std::max(most.peak_running, stats.peak_running);
    most.cached_prompt_tokens = std::max(most.cached_prompt_tokens, stats.cached_prompt_tokens);
    most.preemptions = std::max(most.preemptions, stats.preemptions);
  }
  INFO(name);
  CHECK(most.peak_running >= 16);
  CHECK((most.cached_prompt_tokens > 0) == !model.spec().is_recurrent());
  // A window gives blocks back as fast as it takes them.
  if (name != "mistral_swa") CHECK(most.preemptions > 0);
}

TEST_CASE("the run's seed and the line's name move what is sampled, the order does not") {
  TinyModel model("llama");
  Request request;
  request.key = "a";
  request.prompt = {5, 6, 7};
  const auto tokens = [&](const Request& asked, uint64_t seed) {
    EngineOptions options = options_with(4, 64, 40, DType::bf16);
    options.seed = seed;
    return run_all(*model.engine(options), {asked}).begin()->second.completions[0].token_ids;
  };
  const auto first = tokens(request, 1);
  CHECK(tokens(request, 1) == first);
  CHECK(tokens(request, 2) != first);
  Request renamed = request;
  renamed.key = "b";
  CHECK(tokens(renamed, 1) != first);
  request.sampling.seed = renamed.sampling.seed = 3;
  CHECK(tokens(request, 1) == tokens(renamed, 2));
}
