// Answers with a grammar, beside everything else that a request may ask for.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/test_device.h"
#include "engine/tiny_model.h"
#include "grammar/compiler.h"
#include "grammar/matcher.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using Catch::Contains;
using testing::greedy;
using testing::mixed_requests;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TinyModel;

namespace {

constexpr TokenId kEnd = 256;
using Grammar = std::shared_ptr<const grammar::CompiledGrammar>;

/// A tiny model whose first tokens are bytes, and grammars over them.
struct Fixture {
  explicit Fixture(const std::string& name = "llama") : model(name) {}
  Grammar ebnf(const std::string& text) {
    return compiler.compile({.kind = grammar::Constraint::Kind::ebnf, .text = text});
  }
  std::vector<Grammar> grammars() {
    return {ebnf(R"(root ::= "[" [0-9]{1,12} ("," [0-9]{1,6}){0,8} "]")"),
            ebnf("root ::= [a-z ]{3,40}"), ebnf(R"(root ::= "{" (root ("," root)*)? "}")"),
            ebnf(R"(root ::= "yes" | "no" | "yesterday")")};
  }
  EngineOptions options(int64_t sequences, int64_t tokens, int64_t blocks) const {
    EngineOptions options = options_with(sequences, tokens, blocks, DType::f32);
    options.eos_token_ids = {kEnd};
    return options;
  }

  TinyModel model;
  text::Tokenizer tokenizer = testing::byte_tokenizer(model.folder(), {"yes", "123", "ab", "{}"});
  grammar::Compiler compiler{tokenizer, {.vocab_size = model.spec().vocab_size}};
};

/// Requests of every kind, nearly all with a grammar; some choose between few tokens already.
std::vector<Request> grammatical_requests(Fixture& at) {
  const std::vector<Grammar> grammars = at.grammars();
  std::vector<Request> requests = mixed_requests(at.model.spec().vocab_size);
  for (Request& request : requests) {
    if (!request.sampling.allowed_token_ids.empty() || request.tag % 10 == 9) continue;
    request.sampling.grammar = grammars[request.tag % grammars.size()];
  }
  return requests;
}

/// Checks that an answer follows its grammar, to its end where it ended by itself.
void check_answer(const Request& request, const Completion& answer) {
  std::vector<TokenId> ends = request.sampling.stop_token_ids;
  ends.push_back(kEnd);
  grammar::Matcher matcher(request.sampling.grammar, ends);
  for (const TokenId token : answer.token_ids) {
    REQUIRE_FALSE(matcher.ended());
    REQUIRE_NOTHROW(matcher.accept(token));
  }
  if (!answer.stop_string) CHECK(matcher.ended() == (answer.finish == FinishReason::stop));
}

}  // namespace

TEST_CASE("answers follow their grammars, with the same bytes in any order, batch and device") {
  constexpr std::array kModels = {"llama", "mistral_swa", "mamba"};
  Fixture at(kModels[static_cast<size_t>(GENERATE(range(0, testing::times(3, 1))))]);
  std::vector<Request> requests = grammatical_requests(at);
  EngineOptions alone = at.options(1, 256, 64);
  alone.prefix_caching = false;
  const auto outputs = run_all(*at.model.engine(alone, &at.tokenizer), requests);
  const auto expected = print_all(outputs);
  int whole = 0, cut = 0;
  for (const Request& request : requests) {
    if (!request.sampling.grammar) continue;
    INFO("line " << request.tag);
    for (const Completion& answer : outputs.at(request.tag).completions) {
      check_answer(request, answer);
      ++(answer.finish == FinishReason::length ? cut : whole);
    }
  }
  CHECK(whole > 5);
  CHECK(cut > 5);

  std::mt19937 random(3);
  uint64_t preemptions = 0;
  for (int run = 0; run < testing::times(4, 1); ++run) {
    std::shuffle(requests.begin(), requests.end(), random);
    EngineOptions options = run == 0 ? at.options(24, 64, 12) : at.options(16 * run, 80, 400);
    options.prefix_caching = run % 2 == 0;
    options.admission = Admission::next_step;
    options.threads = 1 + run;
    const auto engine = at.model.engine(options, &at.tokenizer);
    CHECK(print_all(run_all(*engine, requests)) == expected);
    preemptions += engine->stats().preemptions;
  }
  CHECK(preemptions > 0);

  const auto cpu = testing::cpu_backend();
  const testing::TestDeviceFootprint footprint(backend::cpu_footprint(), {});
  testing::TestDevice device(footprint, *cpu);
  const auto engine = at.model.engine_on(device, at.options(16, 80, 400), &at.tokenizer);
  CHECK(print_all(run_all(*engine, requests)) == expected);
  CHECK(device.sent_masks() > 100);
}

TEST_CASE("a device draws by grammars while the host is a step ahead") {
  Fixture at;
  std::vector<Request> requests;
  for (int64_t tag = 0; tag < 12; ++tag) {
    Request& request =
        requests.emplace_back(greedy(tag, {5, 6, 7 + static_cast<int32_t>(tag)}, 40));
    request.sampling.temperature = tag % 2 == 0 ? 0 : 1.2;
    request.sampling.grammar = at.grammars()[static_cast<size_t>(tag % 4)];
    if (tag % 3 == 0) request.sampling.min_tokens = 6;
    if (tag % 5 == 0) request.sampling.repetition_penalty = 1.3;
    if (tag == 7) request.sampling.bad_words = {{'1', '2'}, {'y'}};
  }
  const auto expected =
      print_all(run_all(*at.model.engine(at.options(1, 64, 64), &at.tokenizer), requests));
  const auto cpu = testing::cpu_backend();
  const testing::TestDeviceFootprint footprint(backend::cpu_footprint(), {});
  testing::TestDevice device(footprint, *cpu);
  const auto engine = at.model.engine_on(device, at.options(8, 80, 400), &at.tokenizer);
  const int64_t before = device.drawn_tokens(), overlaps = device.overlaps();
  CHECK(print_all(run_all(*engine, requests)) == expected);
  const auto generated = static_cast<int64_t>(engine->stats().generated_tokens);
  // Rows of sequences that have ended meanwhile, and padding, are drawn too.
  CHECK(device.drawn_tokens() - before >= generated);
  CHECK(static_cast<int64_t>(device.sent_masks()) >= generated);
  CHECK(device.overlaps() - overlaps > 20);
}

TEST_CASE("tokens that end an answer come where the grammar may end, and there alone") {
  Fixture at;
  Request request = greedy(1, {5, 6, 7}, 30);
  request.sampling.grammar = at.ebnf(R"(root ::= "yes" | "no")");
  const auto answer = [&] {
    const auto outputs = run_all(*at.model.engine(at.options(1, 64, 40), &at.tokenizer), {request});
    REQUIRE_FALSE(outputs.at(1).failure);
    return outputs.at(1).completions.at(0);
  };
  // ignore_eos and min_tokens give way: nothing else could follow.
  request.sampling.min_tokens = 20;
  const Completion found = answer();
  CHECK((found.text == "yes" || found.text == "no"));
  CHECK(found.finish == FinishReason::stop);
  CHECK(found.token_ids.back() == kEnd);
  // A bias towards the end does not hurry it, one against it does not keep it away.
  for (const double bias : {100.0, -100.0}) {
    request.sampling.logit_bias = {{kEnd, bias}};
    CHECK(answer().text == found.text);
  }
  // A token of text in stop_token_ids is an end: it has no place within.
  request.sampling.logit_bias = {{'!', 50}};
  request.sampling.stop_token_ids = {'!', 's'};
  const Completion ended = answer();
  CHECK(ended.text == (ended.token_ids.size() == 2 ? "yes" : "no"));
  CHECK(ended.stop_token == '!');
}

TEST_CASE("a model without a token that ends answers ends with its grammar") {
  Fixture at;
  EngineOptions options = at.options(1, 64, 40);
  options.eos_token_ids.clear();
  Request request = greedy(1, {5, 6, 7}, 30);
  request.sampling.grammar = at.ebnf(R"(root ::= "yes" | "no")");
  const auto outputs = run_all(*at.model.engine(options, &at.tokenizer), {request});
  const Completion& answer = outputs.at(1).completions.at(0);
  CHECK((answer.text == "yes" || answer.text == "no"));
  CHECK(answer.finish == FinishReason::stop);
}

TEST_CASE("stop strings, cut answers and tokens that contradict the grammar") {
  Fixture at;
  Request request = greedy(1, {5, 6, 7}, 8);
  const auto run = [&] {
    return run_all(*at.model.engine(at.options(1, 64, 40), &at.tokenizer), {request}).at(1);
  };
  request.sampling.grammar = at.ebnf(R"(root ::= "abcdefghijklmnopqrstuvwxyz")");
  const Completion cut = run().completions.at(0);
  CHECK(cut.finish == FinishReason::length);
  CHECK(std::string("abcdefghijklmnopqrstuvwxyz").starts_with(cut.text));
  request.sampling.stop = {"de"};
  const Completion stopped = run().completions.at(0);
  CHECK(stopped.text == "abc");
  CHECK(stopped.stop_string == "de");
  request.sampling.allowed_token_ids = {'x', 'y'};
  const RequestOutput refused = run();
  REQUIRE(refused.failure);
  CHECK(refused.failure->code == "bad_field");
  CHECK_THAT(refused.failure->message, Contains("grammar"));
}
