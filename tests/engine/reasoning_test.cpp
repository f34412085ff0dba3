// Reasoning before an answer: a grammar waits for its end, and a budget writes it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/byte_tokenizer.h"
#include "engine/mixed_requests.h"
#include "engine/sampling/guide.h"
#include "engine/test_device.h"
#include "engine/tiny_model.h"
#include "grammar/compiler.h"
#include "like_cases.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::greedy;
using testing::options_with;
using testing::print_all;
using testing::run_all;
using testing::TinyModel;

namespace {

constexpr TokenId kEndToken = 256;

std::shared_ptr<const Thinking> thinking_with(bool open, std::optional<int64_t> budget = {}) {
  auto made = std::make_shared<Thinking>();
  made->starts = {"<t>"};
  made->ends = {"</t>", "END"};
  made->open = open;
  made->budget = budget;
  made->start_tokens = {{'<', 't', '>'}};
  made->end_tokens = {'<', '/', 't', '>'};
  return made;
}

struct ReasoningFixture {
  std::shared_ptr<const grammar::CompiledGrammar> digits() {
    return compiler.compile(
        {.kind = grammar::Constraint::Kind::ebnf, .text = "root ::= [0-9]{2,5}"});
  }
  std::unique_ptr<Engine> engine(int64_t sequences, backend::Backend* device = nullptr) {
    EngineOptions options = options_with(sequences, 80, 400, DType::f32);
    options.eos_token_ids = {kEndToken};
    return device ? model.engine_on(*device, options, &tokenizer)
                  : model.engine(options, &tokenizer);
  }

  TinyModel model{"llama"};
  text::Tokenizer tokenizer = testing::byte_tokenizer(model.folder(), {"END", "12", "a>"});
  grammar::Compiler compiler{tokenizer, {.vocab_size = model.spec().vocab_size}};
};

/// Takes a text byte by byte, and looks at it after each.
void write_text(Guide& guide, std::string& text, const std::string& more) {
  for (const char c : more) {
    guide.accept(static_cast<TokenId>(c));
    guide.look(text += c);
  }
}

/// An answer's text in front of the first marker of an end, and behind it.
std::pair<std::string, std::string> parted_text(const std::string& text) {
  const size_t end = text.find("</t>");
  if (end == std::string::npos) return {text, ""};
  return {text.substr(0, end), text.substr(end + 4)};
}

bool is_digits(const std::string& text) {
  return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

TEST_CASE("a grammar holds behind reasoning, wherever its markers fall") {
  ReasoningFixture at;
  SamplingParams params;
  params.grammar = at.digits();
  params.thinking = thinking_with(false);
  Guide guide(params, {kEndToken});
  std::string text;
  CHECK(guide.holds());
  // The answer begins with the marker of reasoning, token by token, or by the grammar.
  std::vector<int32_t> words(guide.mask_words());
  CHECK(guide.masks());
  CHECK(guide.fill_mask(words) == grammar::Matcher::Next::tokens);
  const auto allows = [&](char c) { return (words[c / 32] >> (c % 32) & 1) != 0; };
  CHECK(allows('<'));
  CHECK(allows('7'));
  CHECK_FALSE(allows('t'));
  write_text(guide, text, "<");
  CHECK(guide.forced() == 't');
  write_text(guide, text, "t>");
  CHECK_FALSE(guide.forced());
  CHECK_FALSE(guide.masks());
  write_text(guide, text, "thoughts </t");
  CHECK_FALSE(guide.masks());
  write_text(guide, text, ">");
  CHECK(guide.masks());
  write_text(guide, text, "12");
  CHECK_THROWS_AS(guide.accept('x'), std::logic_error);

  SECTION("it may begin by the grammar") {
    Guide plain(params, {kEndToken});
    text.clear();
    write_text(plain, text, "1");
    CHECK_THROWS_AS(plain.accept('<'), std::logic_error);
  }
  SECTION("a prompt may have opened it") {
    params.thinking = thinking_with(true);
    Guide open(params, {kEndToken});
    text.clear();
    write_text(open, text, "12END");
    CHECK(open.masks());
    write_text(open, text, "34");
    open.accept(kEndToken);
    CHECK(open.ended());
  }
  SECTION("without reasoning it holds at once") {
    params.thinking = nullptr;
    CHECK(Guide(params, {kEndToken}).masks());
  }
}

TEST_CASE("a budget of reasoning forces its end, token by token") {
  SamplingParams params;
  params.thinking = thinking_with(false, 3);
  Guide guide(params, {kEndToken});
  std::string text;
  write_text(guide, text, "long before it <t>");
  CHECK_FALSE(guide.forced());
  write_text(guide, text, "abc");
  for (const char c : std::string("</t>")) {
    REQUIRE(guide.forced() == static_cast<TokenId>(c));
    write_text(guide, text, std::string(1, c));
  }
  CHECK_FALSE(guide.forced());
  CHECK_FALSE(guide.holds());

  params.thinking = thinking_with(true, 0);
  CHECK(Guide(params, {kEndToken}).forced() == '<');
  // An end of its own uses up no budget.
  params.thinking = thinking_with(true, 8);
  Guide own(params, {kEndToken});
  text.clear();
  write_text(own, text, "a</t>and more text");
  CHECK_FALSE(own.forced());
}

TEST_CASE("a token that ends answers may be a part of the end that a budget forces") {
  ReasoningFixture at;
  Request request = greedy(1, {5, 6, 7}, 30);
  request.sampling.grammar = at.digits();
  auto thinking = std::make_shared<Thinking>(*thinking_with(true, 2));
  thinking->end_tokens = {kEndToken, '<', '/', 't', '>'};
  request.sampling.thinking = thinking;
  request.sampling.allowed_token_ids = {'a', '1', kEndToken};
  request.sampling.logit_bias = {{'a', 100}};
  const auto outputs = run_all(*at.engine(1), {request});
  const Completion& answer = outputs.at(1).completions.at(0);
  INFO(answer.text);
  REQUIRE(answer.token_ids.size() > 8);
  CHECK(answer.token_ids[2] == kEndToken);
  CHECK(is_digits(parted_text(answer.text).second));
  CHECK(answer.finish == FinishReason::stop);
}

TEST_CASE("answers with reasoning have the same bytes in any order, batch and device") {
  ReasoningFixture at;
  std::vector<Request> requests;
  for (uint64_t tag = 1; tag <= 24; ++tag) {
    Request request = greedy(tag, {5, static_cast<TokenId>(tag), 7}, 40);
    request.key = std::to_string(tag);
    request.sampling.temperature = tag % 2 == 0 ? 1 : 0;
    request.sampling.n = 1 + static_cast<int64_t>(tag % 2);
    if (request.sampling.temperature == 0) request.sampling.n = 1;
    request.sampling.allowed_token_ids = {'a', 'b', '<', '/', 't', '>', '1', '2', '3', kEndToken};
    if (tag % 5 != 0) request.sampling.logit_bias = {{kEndToken, -100}};
    if (tag % 3 != 0) request.sampling.grammar = at.digits();
    if (tag % 4 != 0) {
      request.sampling.thinking = thinking_with(true, static_cast<int64_t>(tag % 7));
    } else if (request.sampling.grammar) {
      request.sampling.thinking = thinking_with(tag % 8 == 0);
    }
    if (tag % 6 == 0) request.sampling.repetition_penalty = 1.2;
    // A forced end comes although it completes a word that may not come.
    if (tag % 7 == 5) request.sampling.bad_words = {{'/', 't'}, {'1'}, {'a', 'b'}};
    if (tag % 5 == 2) request.sampling.min_tokens = 12;
    requests.push_back(request);
  }
  const auto outputs = run_all(*at.engine(1), requests);
  int forced = 0;
  for (const Request& request : requests) {
    const auto& budget =
        request.sampling.thinking ? request.sampling.thinking->budget : std::nullopt;
    for (const Completion& answer : outputs.at(request.tag).completions) {
      INFO("line " << request.tag << ": " << answer.text);
      const auto [reasoning, rest] = parted_text(answer.text);
      if (budget && answer.text.find("</t>") != std::string::npos) {
        CHECK(std::ssize(reasoning) <= *budget + 2);  // tokens may be two bytes, none here is
        forced += std::ssize(reasoning) == *budget ? 1 : 0;
      }
      if (request.sampling.grammar && request.sampling.thinking) {
        CHECK((is_digits(rest) && (answer.text.starts_with("<t>") ||
                                   request.sampling.thinking->open || is_digits(answer.text))));
      }
      if (request.sampling.grammar && !request.sampling.thinking) CHECK(is_digits(answer.text));
    }
  }
  CHECK(forced > 8);

  const auto expected = print_all(outputs);
  std::mt19937 random(3);
  std::shuffle(requests.begin(), requests.end(), random);
  CHECK(print_all(run_all(*at.engine(16), requests)) == expected);
  const auto cpu = testing::cpu_backend();
  const testing::TestDeviceFootprint footprint(backend::cpu_footprint(), {});
  testing::TestDevice device(footprint, *cpu);
  CHECK(print_all(run_all(*at.engine(16, &device), requests)) == expected);
  CHECK(device.sent_masks() > 200);
}

TEST_CASE("a budget counts messages of reasoning alone, and all of them together") {
  auto thinking = std::make_shared<Thinking>(*thinking_with(true, 5));
  thinking->pauses = {"|"};
  SamplingParams params;
  params.thinking = thinking;
  Guide guide(params, {kEndToken});
  std::string text;
  write_text(guide, text, "ab|a long call to a tool|");
  CHECK_FALSE(guide.forced());
  write_text(guide, text, "<t>c");
  CHECK_FALSE(guide.forced());
  SECTION("it ends in the last one's midst") {
    write_text(guide, text, "d");
    CHECK(guide.forced() == '<');
  }
  SECTION("used up at a message's end, it allows no other") {
    write_text(guide, text, "|a call|");
    CHECK_FALSE(guide.forced());
    write_text(guide, text, "<t>");
    CHECK(guide.forced() == '<');
  }
  SECTION("a message with the answer ends it") {
    write_text(guide, text, "|</t>the answer <t> and more");
    CHECK_FALSE(guide.forced());
  }
}
