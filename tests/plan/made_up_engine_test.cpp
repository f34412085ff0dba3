// Plans of engines that are made up: verdicts to the byte, parts, remedies, and bounds by hand.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "base/split_text.h"
#include "plan/configs.h"
#include "plan/engines/buffers_plan.h"
#include "plan/engines/engine_plan.h"

namespace plimsoll::plan::made_up {

using Catch::Contains;
using engines::Answer;
using engines::Engine;
using engines::Figures;
using engines::Question;
using engines::Refusal;
using engines::Remedy;

namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

using Rule = std::function<void(const Question&, Answer&)>;

/// An engine that answers by `rule`, of which there is one at a time.
Engine engine_of(Rule rule, std::span<const Remedy> remedies = {}) {
  static Rule answers;
  answers = std::move(rule);
  Engine engine{};
  engine.name = "made-up";
  engine.newest = {1, 2, 0};
  engine.remedies = remedies;
  engine.answer_to = [](const Question& question, engines::Version, Answer& answer) {
    answers(question, answer);
  };
  return engine;
}

bool has_word(const Question& question, const std::string& word) {
  return std::ranges::find(question.words, word) != question.words.end();
}

/// The number behind the last of a flag.
int64_t number_of(const Question& question, const std::string& flag, int64_t missing) {
  int64_t number = missing;
  for (size_t i = 0; i + 1 < question.words.size(); ++i)
    if (question.words[i] == flag) number = std::stoll(question.words[i + 1]);
  return number;
}

/// Layers of 64 MiB on the first card, caches of 100 MiB, buffers of 50.
void lay_out(const Question& question, Answer& answer) {
  answer.cards = question.cards;
  answer.figures.card_layers = number_of(question, "--layers", 40);
  answer.figures.context = number_of(question, "--context", 4096);
  answer.figures.kv_tokens = 8192;
  answer.buffers.push_back({.name = "CPU", .card = -1, .model = int64_t{1} << 50});
  answer.buffers.push_back({.name = "CUDA0",
                            .card = 0,
                            .model = answer.figures.card_layers * 64 * kMebibyte,
                            .context = 100 * kMebibyte,
                            .compute = (has_word(question, "--less") ? 40 : 50) * kMebibyte});
}
constexpr int64_t kLaidOut = (40 * 64 + 100 + 50) * kMebibyte;

Question on_card(int64_t free) {
  Question question;
  question.cards = {{"CUDA0", 10 * kGib, free}};
  return question;
}

}  // namespace

TEST_CASE("buffers fit to the byte, and may lack room for what a process takes beside them") {
  struct Row {
    int64_t left;
    bool fits, may_fit;
  };
  for (const Row& row : {Row{-1, false, false}, Row{0, true, true},
                         Row{600 * kMebibyte - 1, true, true}, Row{600 * kMebibyte, true, false}}) {
    INFO(row.left);
    const PlanResult plan = plan_buffers(engine_of(lay_out), on_card(kLaidOut + row.left), false);
    CHECK(plan.fits == row.fits);
    CHECK(plan.has_kv == row.fits);
    CHECK(plan.may_fit == row.may_fit);
    CHECK(plan.reason.empty() == row.fits);
    if (!row.fits) CHECK_THAT(plan.reason, Catch::StartsWith("CUDA0 lacks 1 "));
    CHECK(plan.max_concurrency == 2);
  }
  Question endless = on_card(8 * kGib);
  endless.words = {"--context", "0"};
  CHECK(plan_buffers(engine_of(lay_out), endless, false).max_concurrency == 0);
}

TEST_CASE("the parts of buffers are those of the card with the least left") {
  const auto rule = [](const Question& question, Answer& answer) {
    lay_out(question, answer);
    answer.buffers.push_back({.name = "CUDA1",
                              .card = 1,
                              .model = 3 * kMebibyte,
                              .context = 2 * kMebibyte,
                              .compute = kMebibyte});
  };
  Question question = on_card(5 * kGib);
  question.cards.push_back({"CUDA1", 9 * kGib, 20 * kMebibyte});
  const PlanResult plan = plan_buffers(engine_of(rule), question, false);
  CHECK(part_bytes(plan, "before loading") == 9 * kGib - 20 * kMebibyte);
  CHECK(part_bytes(plan, "weights") == 3 * kMebibyte);
  CHECK(part_bytes(plan, "kv cache") == 2 * kMebibyte);
  CHECK(part_bytes(plan, "compute buffers") == kMebibyte);
  CHECK(part_bytes(plan, "left over") == 14 * kMebibyte);
  CHECK(plan.total_bytes == 9 * kGib);
  CHECK(plan.budget_bytes == 20 * kMebibyte);
  question.cards[1].free_bytes = 8 * kGib;
  CHECK(part_bytes(plan_buffers(engine_of(rule), question, false), "kv cache") == 100 * kMebibyte);
}

TEST_CASE("free memory that nobody states is the total less CUDA's context") {
  Question question = on_card(0);
  const PlanResult plan = plan_buffers(engine_of(lay_out), question, false);
  CHECK(plan.budget_bytes == 10 * kGib - 300 * kMebibyte);
  REQUIRE_FALSE(plan.notes.empty());
  CHECK_THAT(plan.notes.back(), Contains("300.0 MiB of CUDA's context"));
  question.cards[0].total_bytes = 200 * kMebibyte;
  CHECK(plan_buffers(engine_of(lay_out), question, false).budget_bytes == 0);
}

TEST_CASE("a refusal for want of memory is a verdict, any other has nothing to do with the card") {
  for (const std::string stage : {"memory", "arguments", "model"}) {
    INFO(stage);
    const Remedy remedy{.words = "--less", .change = "less", .cost = "none"};
    const auto rule = [&](const Question& question, Answer& answer) {
      lay_out(question, answer);
      if (!has_word(question, "--less")) throw Refusal{stage, "no, thanks"};
    };
    const Engine engine = engine_of(rule, {&remedy, 1});
    const PlanResult buffers = plan_buffers(engine, on_card(8 * kGib), false);
    const Json config = llama_8b();
    Question question;
    question.gpu = &hardware::find_gpu("h100");
    question.free = engines::FreeMemory{70, 60};
    const PlanResult other = plan_engine(engine, question, {config, "config.json"}, false);
    for (const PlanResult* plan : {&buffers, &other}) {
      CHECK(plan->fits == false);
      CHECK(plan->refused == (stage != "memory"));
      CHECK(plan->reason == "no, thanks");
      CHECK_FALSE(plan->has_kv);
    }
    CHECK(buffers.advice.size() == (stage == "memory" ? 1 : 0));
  }
}

TEST_CASE("a remedy's value is the largest multiple below the launch's that leaves a margin") {
  struct Row {
    int64_t unit, room;  // layers that fit with a margin
    std::string flag;    // empty: none is proposed
  };
  for (const Row& row :
       {Row{1, 25, "--layers 25"}, Row{8, 25, "--layers 24"}, Row{1, 1, "--layers 1"},
        Row{1, 0, ""}, Row{8, 7, ""}, Row{1, 39, "--layers 39"}, Row{1, 99, "--layers 39"},
        Row{8, 99, "--layers 32"}}) {
    INFO(row.unit << " " << row.room);
    const Remedy remedies[] = {{.words = "--layers",
                                .change = "fewer layers",
                                .cost = "slower",
                                .below = &Figures::card_layers,
                                .unit = row.unit},
                               {.words = "--nothing", .change = "nothing", .cost = "none"}};
    const int64_t free = (600 + 150 + 64 * row.room + 63) * kMebibyte;
    const PlanResult plan = plan_buffers(engine_of(lay_out, remedies), on_card(free), true);
    REQUIRE(plan.advice.size() == (row.flag.empty() ? 0 : 1));
    if (row.flag.empty()) continue;
    CHECK(plan.advice[0].flag == row.flag);
    const int64_t layers = std::stoll(row.flag.substr(9));
    CHECK(plan.advice[0].saves == (40 - layers) * 64 * kMebibyte);
  }
  const Remedy less{.words = "--less", .change = "less", .cost = "none"};
  const Engine engine = engine_of(lay_out, {&less, 1});
  CHECK(plan_buffers(engine, on_card(8 * kGib), false).advice.empty());  // it fits
  const auto asked = plan_buffers(engine, on_card(8 * kGib), true).advice;
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].saves == 10 * kMebibyte);
  CHECK(plan_buffers(engine, on_card(kLaidOut - 10 * kMebibyte), false).advice.size() == 1);
  CHECK(plan_buffers(engine, on_card(kLaidOut - 10 * kMebibyte - 1), false).advice.empty());
}

TEST_CASE("free memory of an engine in Python is predicted, with the root of its parts' squares") {
  const Json config = llama_8b();
  for (const int64_t ranks : {1, 2}) {
    INFO(ranks << " ranks");
    const auto rule = [&](const Question& question, Answer& answer) {
      answer.figures.dtype = "bfloat16";
      answer.figures.ranks = ranks;
      answer.figures.context = 1000;
      answer.figures.block_tokens = 16;
      answer.figures.bytes_per_token = 2;
      if (!question.free) return;
      answer.sizing = OrderedJson::object();
      const double mib = question.free->after * 1024;
      answer.figures.kv_tokens = std::llround(mib * 100);
    };
    Question question;
    question.gpu = &hardware::find_gpu("h100");
    const PlanResult plan = plan_engine(engine_of(rule), question, {config, "config.json"}, false);
    EngineArgs args;
    args.tensor_parallel = ranks;
    const int64_t weights = plan_of(config, args).weights_bytes;
    CHECK(plan.weights_bytes == weights);
    const double linked = ranks > 1 ? 650 : 0;
    const double after = static_cast<double>(question.gpu->visible_bytes() - weights) / kMebibyte -
                         740 - 200 - linked;
    const double less = std::hypot(220, 400, ranks > 1 ? 700 : 0);
    const double more = std::hypot(200, 180, ranks > 1 ? 350 : 0);
    REQUIRE(plan.bounds);
    CHECK(plan.kv_tokens == std::llround(after * 100));
    CHECK(plan.bounds->low.kv_tokens == std::llround((after - less) * 100));
    CHECK(plan.bounds->high.kv_tokens == std::llround((after + more) * 100));
    CHECK(plan.num_gpu_blocks == plan.kv_tokens / 16);
    CHECK(plan.bytes_per_block == 32);
    CHECK(plan.max_concurrency == static_cast<double>(plan.kv_tokens) / 1000);
    CHECK(plan.estimated_max_model_len == 1000);
  }
}

TEST_CASE("what an engine takes of stated free memory, and what is left of it") {
  const Remedy remedies[] = {{.words = "--more", .change = "more", .cost = "slower"},
                             {.words = "--same", .change = "same", .cost = "none"}};
  const auto rule = [](const Question& question, Answer& answer) {
    Figures& figures = answer.figures;
    answer.sizing = OrderedJson::object();
    figures.context = 4096;
    figures.state_bytes = 3 * kGib;
    figures.kv_bytes = 20 * kGib;
    figures.runtime_bytes = 2 * kGib;
    figures.beside_bytes = kGib;
    figures.kv_tokens = has_word(question, "--more") ? 3000 : 1000;
    if (has_word(question, "--none")) figures.kv_tokens = 0;
  };
  const Json config = llama_8b();
  Question question;
  question.gpu = &hardware::find_gpu("h100");
  const int64_t total = question.gpu->visible_bytes();
  const auto plan = [&](double before, bool advised) {
    question.free = engines::FreeMemory{before, 60};
    return plan_engine(engine_of(rule, remedies), question, {config, "config.json"}, advised);
  };
  const PlanResult whole = plan(75, true);
  CHECK(part_bytes(whole, "before loading") == total - 75 * kGib);
  CHECK(part_bytes(whole, "weights and loading") == 15 * kGib);
  CHECK(part_bytes(whole, "recurrent states") == 3 * kGib);
  CHECK(part_bytes(whole, "kv cache") == 20 * kGib);
  CHECK(part_bytes(whole, "kept for steps") == 2 * kGib);
  CHECK(part_bytes(whole, "tables") == kGib);
  CHECK(part_bytes(whole, "left over") == (60 - 26) * kGib);
  CHECK_FALSE(whole.bounds);
  CHECK(part_bytes(plan(0, false), "taken before the cache") == total - 60 * kGib);
  CHECK(plan(75, false).advice.empty());
  REQUIRE(whole.advice.size() == 1);
  CHECK(whole.advice[0].flag == "--more");
  CHECK(whole.advice[0].requests_before == Approx(1000.0 / 4096));
  CHECK(whole.advice[0].requests == Approx(3000.0 / 4096));
  CHECK(whole.advice[0].longest == 0);
  question.words = {"--none"};
  CHECK(plan(75, false).fits == false);
  CHECK_FALSE(plan(75, false).refused);
}

}  // namespace plimsoll::plan::made_up
