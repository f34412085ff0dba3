// What becomes of requests: faults by field, figures of an answer, figures of the engine by hand.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/mixed_requests.h"
#include "engine/request_state.h"
#include "engine/tiny_model.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using Catch::Contains;
using testing::greedy;
using testing::options_with;
using testing::run_all;
using testing::TinyModel;

namespace {

/// A prompt of so many tokens.
std::vector<TokenId> prompt_of(size_t length, TokenId first = 100) {
  std::vector<TokenId> prompt(length);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

}  // namespace

TEST_CASE("a token that the vocabulary does not have is refused in whatever field it is") {
  constexpr int64_t kVocabulary = 1000, kContext = 64;
  using Change = std::function<void(Request&, TokenId)>;
  const std::vector<std::pair<std::string, Change>> fields = {
      {"prompt",
       [](Request& request, TokenId token) {
         request.prompt = {5, token};
       }},
      {"stop_token_ids",
       [](Request& request, TokenId token) {
         request.sampling.stop_token_ids = {5, token};
       }},
      {"allowed_token_ids",
       [](Request& request, TokenId token) {
         request.sampling.allowed_token_ids = {5, token};
       }},
      {"bad_words",
       [](Request& request, TokenId token) {
         request.sampling.bad_words = {{5}, {6, token}};
       }},
      {"logit_bias", [](Request& request, TokenId token) {
         request.sampling.logit_bias = {{5, 1}, {token, 1}};
       }}};
  for (const auto& [field, change] : fields) {
    INFO(field);
    for (const TokenId token : {TokenId{0}, TokenId{kVocabulary - 1}}) {
      Request request = greedy(0, {5}, 4);
      change(request, token);
      CHECK_FALSE(find_fault(request, kVocabulary, kContext));
    }
    for (const TokenId token : {TokenId{-1}, TokenId{kVocabulary}}) {
      Request request = greedy(0, {5}, 4);
      change(request, token);
      const auto fault = find_fault(request, kVocabulary, kContext);
      CHECK(fault.has_value());
      if (!fault) continue;
      CHECK(fault->code == "bad_field");
      CHECK(fault->message == field + ": token id " + std::to_string(token) +
                                  " is outside the vocabulary of 1000 tokens");
    }
  }
}

TEST_CASE("counts of a request are at least 1, and its prompt leaves room for a token") {
  const auto said = [](const Request& request) {
    const auto fault = find_fault(request, 1000, 64);
    return fault ? fault->code + ": " + fault->message : "";
  };
  Request request = greedy(0, prompt_of(63), 1);
  CHECK(said(request).empty());
  request.sampling.n = 0;
  CHECK_THAT(said(request), Contains("bad_field: n is 0; it must be at least 1"));
  request.sampling.n = 1;
  request.sampling.max_tokens = 0;
  CHECK_THAT(said(request), Contains("bad_field: max_tokens is 0; it must be at least 1"));
  CHECK_THAT(said(greedy(0, prompt_of(64), 1)),
             Contains("context_too_long: the prompt has 64 tokens; the context of 64"));
  CHECK_THAT(said(greedy(0, {}, 1)), Contains("bad_field: the prompt has no tokens"));
}

TEST_CASE("an answer says how much of its prompt was there already") {
  TinyModel model("llama");
  const auto engine = model.engine(options_with(4, 64, 200, DType::f32));
  for (const int64_t cached : {0, 96}) {  // whole blocks of 16, never the last token
    const auto outputs = run_all(*engine, {greedy(7, prompt_of(100), 2)});
    CHECK(outputs.at(7).prompt_tokens == 100);
    CHECK(outputs.at(7).cached_tokens == cached);
  }
  // Of several choices those of the first count.
  Request several = greedy(8, prompt_of(40, 500), 2);
  several.sampling.n = 3;
  CHECK(run_all(*engine, {several}).at(8).cached_tokens == 0);
  CHECK(engine->stats().cached_prompt_tokens == 96 + 2 * 32);
  CHECK(engine->stats().prefix_queries_tokens == 100 + 100 + 3 * 40);
}

TEST_CASE("figures of three requests of which two run at once, by hand") {
  TinyModel model("llama");
  const auto engine = model.engine(options_with(2, 64, 200, DType::f32));
  for (uint64_t tag = 0; tag < 3; ++tag)
    engine->add(greedy(tag, prompt_of(20 + tag, static_cast<TokenId>(100 * tag + 5)), 3));
  CHECK(engine->waiting() == 3);
  CHECK_FALSE(engine->idle());
  std::vector<RequestOutput> finished;
  engine->step(finished);
  CHECK(engine->waiting() == 1);
  CHECK(engine->stats().running == 2);
  CHECK(engine->stats().waiting == 1);
  CHECK(engine->stats().kv_blocks_used == 4);
  while (!engine->idle()) engine->step(finished);
  CHECK(finished.size() == 3);
  const EngineStats& stats = engine->stats();
  CHECK(stats.steps == 3 + 3);  // a prompt gives the first of three tokens
  CHECK(stats.prompt_tokens == 20 + 21 + 22);
  CHECK(stats.generated_tokens == 9);
  CHECK(stats.cached_prompt_tokens == 0);
  CHECK(stats.drafted_tokens == 0);
  CHECK(stats.preemptions == 0);
  CHECK(stats.peak_running == 2);
  CHECK(stats.running == 0);
  CHECK(stats.waiting == 0);
  CHECK(stats.under_way == 0);
  CHECK(stats.kv_blocks == 200);
  CHECK(stats.kv_blocks_used == 0);
  CHECK(stats.kv_blocks_peak == 2 * 2);  // up to 23 tokens in blocks of 16
  CHECK(stats.prefill_seconds > 0);
  CHECK(stats.decode_seconds > 0);
  for (const MeasuredRegion& region : engine->measured()) {
    INFO(region.name);
    CHECK(region.placed_bytes == region.planned_bytes);
    const bool varies = region.name == "kv blocks" || region.name == "step scratch";
    CHECK(region.used_bytes.has_value() == varies);
    if (region.name == "kv blocks") CHECK(region.used_bytes == 4 * engine->plan().kv_block_bytes);
    if (region.name == "step scratch") {
      CHECK(*region.used_bytes > 0);
      CHECK(*region.used_bytes <= region.placed_bytes);
    }
  }
}

TEST_CASE("replicas share requests evenly, and the time of a step is no longer than the clock's") {
  TinyModel model("llama");
  const auto first = testing::cpu_backend(), second = testing::cpu_backend();
  const checkpoint::WeightReader weights = model.reader();
  EngineOptions options = options_with(4, 64, 100, DType::f32);
  options.replicas = 2;
  Engine engine(model.spec(),
                {Rank{.spec = &model.spec(), .backend = first.get(), .weights = &weights},
                 Rank{.spec = &model.spec(), .backend = second.get(), .weights = &weights}},
                nullptr, options);
  CHECK(engine.ranks() == 2);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t tag = 0; tag < 3; ++tag)
    engine.add(greedy(tag, prompt_of(20, static_cast<TokenId>(100 * tag + 5)), 40));
  CHECK(engine.waiting() == 3);
  std::vector<RequestOutput> finished;
  while (!engine.idle()) engine.step(finished);
  const std::chrono::duration<double> clock = std::chrono::steady_clock::now() - begin;
  CHECK(finished.size() == 3);
  const EngineStats& stats = engine.stats();
  CHECK(stats.steps == 2 * 40);
  CHECK(stats.generated_tokens == 3 * 40);
  CHECK(stats.peak_running == 2 + 1);
  CHECK(stats.kv_blocks == 2 * 100);
  CHECK(stats.kv_blocks_peak == 3 * 4);  // of 59 tokens that are computed
  for (const size_t rank : {0, 1}) {
    const auto regions = engine.measured(rank);
    const auto blocks = std::ranges::find(regions, "kv blocks", &MeasuredRegion::name);
    REQUIRE(blocks != regions.end());
    CHECK(blocks->used_bytes == (rank == 0 ? 2 : 1) * 4 * engine.plan().kv_block_bytes);
  }
  CHECK(stats.prefill_seconds + stats.decode_seconds <= clock.count());
}
