// Speculation by prompt lookup: what is proposed, what is kept, and what it saves.
#include "engine/speculation/speculation.h"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/mixed_requests.h"
#include "engine/tiny_model.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::greedy;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TinyModel;

namespace {

using Tokens = std::vector<TokenId>;

/// What is proposed behind `prompt` and `output`, of at most `most` tokens.
Tokens proposed(const Tokens& prompt, const Tokens& output, NgramOptions options,
                int64_t max_length = 1000) {
  Sequence sequence;
  sequence.prompt = prompt;
  sequence.output = output;
  sequence.max_length = max_length;
  propose(sequence, options);
  return sequence.draft;
}

}  // namespace

TEST_CASE("the tokens behind the longest repetition are proposed") {
  const Tokens prompt = {1, 2, 3, 4, 5, 9, 2, 3, 7, 7};
  CHECK(proposed(prompt, {2, 3}, {3, 2, 2}) == Tokens{7, 7, 2});     // the last one
  CHECK(proposed(prompt, {1, 2, 3}, {3, 1, 3}) == Tokens{4, 5, 9});  // the longest
  CHECK(proposed(prompt, {1, 2, 3}, {3, 1, 2}) == Tokens{7, 7, 1});  // of two tokens alone
  CHECK(proposed(prompt, {1, 2, 3}, {3, 4, 5}).empty());             // too short
  CHECK(proposed(prompt, {8}, {3, 1, 2}).empty());                   // new
  CHECK(proposed(prompt, {5}, {0, 1, 2}).empty());                   // not asked
  CHECK(proposed({6}, {}, {3, 1, 2}).empty());                       // nothing before
  CHECK(proposed({6, 6}, {6}, {4, 1, 3}) == Tokens{6, 6, 6, 6});     // goes on for ever
  CHECK(proposed({1, 2, 1}, {2, 1, 2}, {5, 2, 4}) == Tokens{1, 2, 1, 2, 1});
}

TEST_CASE("no more is proposed than the answer may have before its last token") {
  const Tokens prompt = {1, 2, 3, 4, 5, 6};
  CHECK(proposed(prompt, {1, 2}, {4, 1, 2}, 12) == Tokens{3, 4, 5});
  CHECK(proposed(prompt, {1, 2}, {4, 1, 2}, 10) == Tokens{3});
  CHECK(proposed(prompt, {1, 2}, {4, 1, 2}, 9).empty());
}

TEST_CASE("a draft is kept as far as it is right") {
  const Tokens prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1};
  Sequence sequence;
  sequence.prompt = prompt;
  const NgramOptions options{4, 1, 3};
  const auto compute = [&](int64_t drafted) {
    propose(sequence, options);
    sequence.drafted = drafted;
    sequence.computed = sequence.known_length() + drafted;
  };
  const auto draw = [&](TokenId token) {
    sequence.output.push_back(token);
    return verify_draft(sequence, token);
  };
  compute(2);
  CHECK(sequence.draft == Tokens{2, 3, 4, 5});
  CHECK(draw(2));
  CHECK(draw(3));
  CHECK_FALSE(draw(4));  // proposed, but not computed
  CHECK(sequence.decoding());
  CHECK(sequence.acceptance > 0.6);
  compute(4);
  CHECK(sequence.draft == Tokens{5, 6, 7, 8});
  CHECK(draw(5));
  CHECK_FALSE(draw(2));
  CHECK(sequence.decoding());  // 6, 7 and 8 count as not computed
  CHECK(sequence.draft.empty());
  CHECK(sequence.drafted == 0);
}

TEST_CASE("a draft is as long as it pays: by what was kept before, and by who shares the step") {
  Sequence sequence;
  sequence.draft = Tokens(8, 1);
  const auto length = [&](double acceptance, int64_t sequences) {
    sequence.acceptance = acceptance;
    return worthwhile_draft(sequence, sequences);
  };
  CHECK(length(0.5, 1) == 2);
  CHECK(length(1, 1) == 8);
  CHECK(length(0.9, 32) == 1);
  CHECK(length(0.8, 32) == 0);
  CHECK(length(0, 1) == 0);
  // What is not computed is compared all the same: a sequence that begins to repeat itself is seen.
  sequence.prompt = sequence.draft;
  sequence.acceptance = 0;
  for (int i = 0; i < 8; ++i) {
    sequence.draft = {1};
    sequence.output.push_back(1);
    CHECK_FALSE(verify_draft(sequence, 1));
  }
  CHECK(sequence.acceptance > 0.6);
}

TEST_CASE("an answer that repeats itself takes fewer steps, and has the same tokens") {
  TinyModel model("llama");
  EngineOptions options = options_with(4, 64, 64, DType::f32);
  std::vector<Request> requests = {greedy(0, {5, 6, 7}, 120), greedy(1, {9, 8, 7, 6}, 120)};
  for (Request& request : requests) request.sampling.allowed_token_ids = {11, 42};
  const auto plain = model.engine(options);
  const auto expected = print_all(run_all(*plain, requests));
  options.ngram = {8, 2, 4};
  const auto speculating = model.engine(options);
  CHECK(print_all(run_all(*speculating, requests)) == expected);
  const EngineStats& stats = speculating->stats();
  CHECK(stats.generated_tokens == 240);
  CHECK(stats.kept_tokens > 60);
  CHECK(3 * stats.steps <= 2 * plain->stats().steps);
  CHECK(stats.preemptions == 0);
}

TEST_CASE("what is proposed changes no bit of any kind of request") {
  const std::string name =
      GENERATE(from_range(testing::names_taken({"llama", "mistral_swa", "glm_moe_dsa"}, 2)));
  TinyModel model(name);
  std::vector<Request> requests = testing::mixed_requests(model.spec().vocab_size);
  for (Request& request : requests) {
    // Of few tokens many are repeated, some as they came before.
    if (request.tag % 2 == 1) request.sampling.allowed_token_ids = {11, 42, 90};
  }
  EngineOptions options = options_with(2, 64, 1000, DType::f32);
  const auto expected = print_all(run_all(*model.engine(options), requests));
  options.ngram = {8, 1, 4};
  const auto engine = model.engine(options);
  CHECK(print_all(run_all(*engine, requests)) == expected);
  const EngineStats& stats = engine->stats();
  INFO(name << ": " << stats.drafted_tokens << " drafted, " << stats.kept_tokens << " kept");
  CHECK(stats.kept_tokens > 100);
  CHECK(stats.drafted_tokens > stats.kept_tokens + 50);
}

TEST_CASE("where blocks are scarce nothing is proposed, and nobody is preempted for a draft") {
  TinyModel model("llama");
  // Two sequences of 4 blocks each, which 8 blocks hold and no more.
  EngineOptions options = options_with(2, 64, 8, DType::f32);
  options.max_model_len = 64;
  options.ngram = {8, 1, 4};
  const auto engine = model.engine(options);
  run_all(*engine, {greedy(0, {5, 6, 7}, 61), greedy(1, {9, 8, 7}, 61)});
  CHECK(engine->stats().preemptions == 0);
  CHECK(engine->stats().generated_tokens == 122);
}
