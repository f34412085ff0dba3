// What an index knows of an answer's length, and the cost of limits, reckoned by hand.
#include <catch2/catch.hpp>

#include "batch/order/order_choice.h"
#include "batch/order/step_limits.h"
#include "batch/scratch.h"
#include "engine/admission.h"
#include "engine/byte_tokenizer.h"

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

struct Asked {
  int prompt = 0;
  int64_t answer = 0;
  int64_t choices = 1;
};

BuiltRequest request_of(const Asked& asked) {
  BuiltRequest request;
  TokenIds ids(static_cast<size_t>(asked.prompt));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  request.prompts.push_back({.text = "", .parts = {ids}});
  engine::SamplingParams sampling;
  sampling.max_tokens = asked.answer;
  sampling.ignore_eos = true;
  sampling.n = asked.choices;
  request.sampling.push_back(sampling);
  return request;
}

PrefixIndex index_of(const std::vector<Asked>& lines) {
  PrefixIndex index(16);
  for (const Asked& line : lines) {
    const BuiltRequest request = request_of(line);
    index.add_line(&request);
  }
  return index;
}

/// 1000 blocks of 16 tokens; a step takes as long as 50 tokens do, and has 100 of them.
engine::ScheduleShape launch_of(int64_t sequences) {
  engine::ScheduleShape launch;
  launch.cache = {.blocks = 1000, .block_size = 16, .windows = {0}};
  launch.limits = {.sequences = sequences, .tokens = 100};
  launch.step_tokens = 50;
  return launch;
}

void check(const LimitsEstimate& found, double concurrent, double steps, double cost) {
  CHECK(found.concurrent == Approx(concurrent));
  CHECK(found.steps == Approx(steps));
  CHECK(found.cost == Approx(cost));
}

}  // namespace

TEST_CASE("an answer's length is certain where nothing but its limit can end it") {
  const test::Scratch folder;
  const text::Tokenizer bytes = testing::byte_tokenizer(folder.path(""));
  grammar::Compiler compiler(bytes, {.vocab_size = 257});
  const auto sequence = [](const std::function<void(engine::SamplingParams&)>& change) {
    BuiltRequest request = request_of({.prompt = 5, .answer = 1000});
    change(request.sampling[0]);
    PrefixIndex index(16);
    index.add_line(&request);
    return index.sequences(0).front();
  };
  const IndexedSequence certain = sequence([](auto&) {});
  CHECK(certain.ends_at_limit);
  CHECK(certain.answer == 1000);
  CHECK(certain.prompt == 5);
  CHECK(certain.choices == 1);
  CHECK_FALSE(certain.scores_prompt);
  const auto expected =
      static_cast<uint32_t>(engine::AnswerLengths().expect(0, 1000));  // some part of it
  for (const auto& open : std::vector<std::function<void(engine::SamplingParams&)>>{
           [](auto& sampling) { sampling.ignore_eos = false; },
           [](auto& sampling) { sampling.stop = {"x"}; },
           [](auto& sampling) { sampling.stop_token_ids = {1}; },
           [&](auto& sampling) {
             sampling.grammar =
                 compiler.compile({.kind = grammar::Constraint::Kind::regex, .text = "a+"});
           }}) {
    CHECK_FALSE(sequence(open).ends_at_limit);
    CHECK(sequence(open).answer == expected);
  }
  CHECK(sequence([](auto& sampling) { sampling.prompt_logprobs = 0; }).scores_prompt);
  CHECK(sequence([](auto& sampling) { sampling.n = 3; }).choices == 3);
}

TEST_CASE("prompts whose figures are asked for find nothing in the cache, as it is forecast") {
  for (const bool scores : {false, true}) {
    PrefixIndex index(16);
    BuiltRequest request = request_of({.prompt = 40, .answer = 2});
    if (scores) request.sampling[0].prompt_logprobs = 0;
    for (int line = 0; line < 3; ++line) index.add_line(&request);
    const std::vector<uint32_t> order = {0, 1, 2};
    CHECK(forecast_schedule(index, order, launch_of(1)).cached_tokens == (scores ? 0 : 2 * 32));
  }
}

TEST_CASE("a run of equal lines takes the steps of its answers, and those of its prompts") {
  // 20 sequences of 200 tokens and 10 to answer, 4 at once: 200 / 4 and 4000 / 100 steps.
  const PrefixIndex equal = index_of(std::vector<Asked>(20, {.prompt = 200, .answer = 10}));
  check(estimate_limits(equal, 0, launch_of(4)), 4, 50 + 40, 90 * 50 + 4000 + 200);
  // More at once than there are sequences change nothing.
  check(estimate_limits(equal, 0, launch_of(500)), 20, 10 + 40, 50 * 50 + 4000 + 200);
  // Half of the prompts' tokens come from the cache, where there is one.
  check(estimate_limits(equal, 2000, launch_of(4)), 4, 50 + 20, 70 * 50 + 2000 + 200);
  engine::ScheduleShape without = launch_of(4);
  without.cache.prefix_caching = false;
  check(estimate_limits(equal, 2000, without), 4, 50 + 40, 90 * 50 + 4000 + 200);
}

TEST_CASE("choices of a prompt compute it once where they share blocks, else each by itself") {
  const PrefixIndex index = index_of({{.prompt = 300, .answer = 10, .choices = 3}});
  check(estimate_limits(index, 0, launch_of(3)), 3, 10 + 3, 13 * 50 + 300 + 30);
  engine::ScheduleShape without = launch_of(3);
  without.cache.prefix_caching = false;
  check(estimate_limits(index, 0, without), 3, 10 + 9, 19 * 50 + 900 + 30);
}

TEST_CASE("the longest answer runs on beside ever fewer others") {
  // 30 tokens of three answers, 3 at once: 10 steps, and 20 - 10 of the longest behind the mean.
  const PrefixIndex index = index_of(
      {{.prompt = 100, .answer = 5}, {.prompt = 100, .answer = 5}, {.prompt = 100, .answer = 20}});
  check(estimate_limits(index, 0, launch_of(3)), 3, 10 + 10 + 3, 23 * 50 + 300 + 30);
}

TEST_CASE("sequences wait for blocks: those of the whole context, or of a window") {
  // Half of its answer behind it a sequence has 312 tokens in 20 blocks: 10 fit into 200.
  const PrefixIndex index = index_of(std::vector<Asked>(40, {.prompt = 300, .answer = 24}));
  engine::ScheduleShape launch = launch_of(100);
  launch.cache.blocks = 200;
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(10));
  launch.cache.windows = {64};  // four blocks
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(40));
  launch.cache.blocks = 100;
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(25));
  launch.cache.windows = {64, 0};  // four and twenty
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(100.0 / 24));
  launch.cache.blocks = 1;
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(1));
}

TEST_CASE("until sequences have finished only a head start runs") {
  // Of 40 sequences and a head start of 8, 24 at once leave half of the others behind.
  const PrefixIndex index = index_of(std::vector<Asked>(40, {.prompt = 16, .answer = 4}));
  engine::ScheduleShape launch = launch_of(100);
  launch.limits.head_start = 8;
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(24));
  launch.limits.sequences = 20;
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(20));
  launch.limits = {.sequences = 100, .tokens = 100, .head_start = 60};
  CHECK(estimate_limits(index, 0, launch).concurrent == Approx(40));
}

TEST_CASE("the machine's measured rate goes before the launch's own when limits are chosen") {
  const PrefixIndex index = index_of(std::vector<Asked>(64, {.prompt = 16, .answer = 64}));
  const auto sequences = [&](double own, std::optional<double> measured) {
    const auto launch = [&](const StepLimits& limits) -> std::optional<engine::ScheduleShape> {
      engine::ScheduleShape made = launch_of(limits.sequences);
      made.limits.tokens = 512;
      made.step_tokens = own;
      return made;
    };
    const auto chosen = choose_limits(index, 0, {true, false, {0, 512}, measured}, launch);
    REQUIRE(chosen);
    return chosen->limits.sequences;
  };
  // Steps that cost nothing are best small, dear ones are best few.
  CHECK(sequences(0, {}) == 1);
  CHECK(sequences(1000, {}) == 64);
  CHECK(sequences(1000, 0) == 1);
  CHECK(sequences(0, 1000) == 64);
}
