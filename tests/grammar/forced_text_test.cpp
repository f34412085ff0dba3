// The text that a grammar leaves no choice about.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "batch/scratch.h"
#include "engine/byte_tokenizer.h"
#include "grammar/compiler.h"
#include "grammar/matcher.h"

using namespace plimsoll;
using grammar::Constraint;
using grammar::Matcher;

namespace {

constexpr text::TokenId kAnswerEnd = 256;

const text::Tokenizer& bytes() {
  static const test::Scratch folder;
  static const text::Tokenizer tokenizer = testing::byte_tokenizer(folder.path(""));
  return tokenizer;
}

Matcher matcher_of(const Constraint& constraint) {
  static grammar::Compiler compiler(bytes(), {.vocab_size = 257});
  return {compiler.compile(constraint), {kAnswerEnd}};
}

std::string forced_behind(const Constraint& constraint, const std::string& before) {
  Matcher matcher = matcher_of(constraint);
  for (const text::TokenId token : testing::byte_ids(before)) matcher.accept(token);
  return matcher.forced_text(100);
}

const std::string kPerson = R"({"type": "object", "properties": {
    "name": {"type": "string"}, "age": {"type": "integer"},
    "tags": {"type": "array", "items": {"enum": ["red", "rough", "sour"]}, "minItems": 1},
    "of": {"type": "object", "properties": {"x": {"type": "boolean"}, "y": {"const": null}},
           "required": ["x", "y"], "additionalProperties": false}},
    "required": ["name", "age", "tags", "of"], "additionalProperties": false})";

}  // namespace

TEST_CASE("a schema forces keys and punctuation, with the whitespace that the answer puts there") {
  const auto [before, expected] = GENERATE(table<std::string, std::string>(
      {{"", R"({"name": ")"},
       {"{\n", R"("name": ")"},
       {R"({"na)", R"(me": ")"},
       {R"({"name")", R"(: ")"},
       {R"({"name": )", R"(")"},
       {R"({"name": "a)", ""},
       {R"({"name": "a\")", ""},
       {R"({"name": "a")", R"(, "age":)"},
       {R"({"name":"a")", R"(, "age":)"},
       {"{\n  \"name\": \"{[,\"", ",\n  \"age\":"},
       {R"({"name":"a","age":)", ""},
       {R"({"name":"a","age":4)", ""},
       {R"({"name":"a","age":4 )", R"(,"tags":[")"},
       {R"({"name":"a","age":4,"tags":["r)", ""},
       {R"({"name":"a","age":4,"tags":["re)", R"(d")"},
       {"{\n \"name\": \"a\",\n \"age\": 4,\n \"tags\": [\n  \"sour\"\n ]",
        ",\n \"of\": {\n  \"x\":"},
       {R"({"name":"a","age":4,"tags":["sour"],"of":{"x":t)", R"(rue,"y":null}})"},
       {R"({"name":"a","age":4,"tags":["sour"],"of":{"x":true,"y":null}})", ""}}));
  INFO(before);
  CHECK(forced_behind({.text = kPerson}, before) == expected);
}

TEST_CASE("whitespace that is not free is forced, and free whitespace of no text is left out") {
  Constraint narrow{.text = kPerson};
  narrow.options.any_whitespace = false;
  CHECK(forced_behind(narrow, R"({"name": "a")") == R"(, "age": )");
  narrow.options.whitespace_pattern = "[\\n]?";
  CHECK(forced_behind(narrow, R"({"name":"a")") == R"(,"age":)");
}

TEST_CASE("patterns, choices and grammars force text too, in whole characters and bounded") {
  using Kind = Constraint::Kind;
  const auto regex = [](const char* text) { return Constraint{.kind = Kind::regex, .text = text}; };
  const auto ebnf = [](const char* text) { return Constraint{.kind = Kind::ebnf, .text = text}; };
  const auto choice = [](const char* one, const char* other) {
    return Constraint{.kind = Kind::choice, .choices = {one, other}};
  };
  CHECK(forced_behind(regex("id-[0-9]{2} ?done"), "") == "id-");
  CHECK(forced_behind(regex("id-[0-9]{2} ?done"), "id-00") == "done");
  CHECK(forced_behind(choice("yes", "yesterday"), "") == "yes");
  CHECK(forced_behind(choice("\u00e4", "\u00f6"), "").empty());
  CHECK(forced_behind(choice("\u00e4x", "\u00e4y"), "") == "\u00e4");
  CHECK(forced_behind(ebnf(R"(root ::= "ab" root)"), "a").size() == 100);  // it never ends
  // xgrammar forgets what is left of such a bound when it goes back.
  CHECK(forced_behind(ebnf("root ::= \"a\" b\nb[max_tokens=3] ::= \"bc\" \"d\"*"), "").empty());
}

TEST_CASE("looks ahead end where they take more work than comes of them") {
  const std::string common(120, 'x');
  const auto matcher_behind = [&](int values, size_t bytes) {
    Json schema = {{"enum", Json::array()}};
    for (int i = 0; i < values; ++i) schema["enum"].push_back(common + std::to_string(i));
    Matcher matcher = matcher_of({.text = schema.dump()});
    constexpr size_t kDraft = 24;  // bytes, looked for again once they have come
    const std::string answer = "\"" + common;
    size_t come = 0;
    for (const text::TokenId token : testing::byte_ids(answer.substr(0, bytes))) {
      if (come++ % kDraft == 0) (void)matcher.forced_text(kDraft);
      matcher.accept(token);
    }
    return matcher.forced_text(kDraft);
  };
  CHECK(matcher_behind(2, 40).size() == 24);
  CHECK(matcher_behind(800, 1).size() < 24);
  CHECK(matcher_behind(800, 40).empty());
}

TEST_CASE("a matcher that was asked for forced text masks like one that was not") {
  const std::string answer =
      "{\"name\": \"a\\\"b\", \"age\": 12,\n\"tags\":[\"red\" , \"rough\"],\"of\":{\"x\":true,"
      "\"y\":null}}";
  Matcher asked = matcher_of({.text = kPerson}), plain = matcher_of({.text = kPerson});
  std::vector<int32_t> asked_words(asked.mask_words()), plain_words(plain.mask_words());
  for (const text::TokenId token : testing::byte_ids(answer)) {
    (void)asked.forced_text(7);
    (void)asked.fill_mask(asked_words);
    (void)plain.fill_mask(plain_words);
    REQUIRE(asked_words == plain_words);
    asked.accept(token);
    plain.accept(token);
  }
  CHECK(asked.forced_text(7).empty());
  asked.accept(kAnswerEnd);
  CHECK(asked.forced_text(7).empty());
}
