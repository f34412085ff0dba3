// Token masks against what each token does, and the cache of compiled grammars.
#include "grammar/matcher.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "batch/scratch.h"
#include "engine/byte_tokenizer.h"
#include "grammar/masks.h"
#include "processor_time.h"

using namespace plimsoll;
using grammar::CompiledGrammar;
using grammar::Compiler;
using grammar::Constraint;
using grammar::Matcher;
using testing::is_set;
using testing::kEnd;
using testing::takes;
using text::TokenId;

namespace {

constexpr int64_t kVocabulary = 300;  // more than the tokenizer has

const text::Tokenizer& tokenizer() {
  static const test::Scratch folder;
  static const text::Tokenizer bytes = testing::byte_tokenizer(
      folder.path(""),
      {"ab", "abc", "b,", "]", "12", "\xc3\xa4", "\xe2\x82", "null", "\":", "\n\n"});
  return bytes;
}

Constraint ebnf(const std::string& text) {
  return {.kind = Constraint::Kind::ebnf, .text = text};
}

std::string refusal(Compiler& compiler, const Constraint& constraint) {
  try {
    (void)compiler.compile(constraint);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::input_unusable);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a mask has the tokens that may follow, and no others") {
  const std::string text =
      GENERATE(R"(root ::= "[" [0-9]{1,3} ("," [0-9]{1,2}){0,3} "]")",
               R"(root ::= ("ab" | "abc")* "\n\n"?)", R"(root ::= "{" (root ("," root)*)? "}")",
               R"(root ::= [^a-z"]{0,3} "\"" | "\u20ac" [ä-ö]{2})");
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary});
  const auto grammar = compiler.compile(ebnf(text));
  std::mt19937 random(4);
  int ended = 0;
  for (int walk = 0; walk < 20; ++walk) {
    std::vector<TokenId> tokens;
    Matcher matcher(grammar, {kEnd});
    std::vector<int32_t> words(matcher.mask_words());
    while (tokens.size() < 12 && !matcher.ended()) {
      const Matcher::Next next = matcher.fill_mask(words);
      std::vector<TokenId> allowed;
      const auto known = static_cast<TokenId>(tokenizer().vocab_size());
      for (TokenId token = known; token < kVocabulary; ++token) CHECK_FALSE(is_set(words, token));
      for (TokenId token = 0; token < known; ++token) {
        INFO(text << " after " << tokens.size() << " tokens: " << token);
        const bool taken = takes(grammar, tokens, token);
        CHECK(is_set(words, token) == taken);
        if (taken) allowed.push_back(token);
      }
      REQUIRE_FALSE(allowed.empty());
      CHECK((next == Matcher::Next::ends_alone) == (allowed == std::vector<TokenId>{kEnd}));
      const bool ends = is_set(words, kEnd) && random() % 2 == 0;
      tokens.push_back(ends ? kEnd : allowed[random() % allowed.size()]);
      matcher.accept(tokens.back());
    }
    if (matcher.ended()) ++ended;
  }
  CHECK(ended > 0);
}

TEST_CASE("wherever an answer by a schema may come, it can come to an end") {
  const std::string schema = GENERATE(
      as<std::string>(),
      R"({"type":"object","properties":{"roles":{"type":"array","items":{"enum":["admin","user"]},
          "contains":{"const":"admin"},"maxItems":2}},"required":["roles"],
          "additionalProperties":false})",
      R"({"type":"array","prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":false,
          "contains":{"const":true}})",
      R"({"type":"array","items":{"enum":[1,2]},"maxItems":3,"not":{"items":{"const":1}}})",
      R"({"type":"array","items":{"type":"boolean"},"maxItems":2,"if":{"contains":{"const":true}},
          "then":{"minItems":2}})",
      R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":2,
          "maxItems":2})",
      R"({"type":"object","properties":{"a":{"$ref":"#/$defs/endless"},"b":{"type":"null"}},
          "additionalProperties":false,
          "$defs":{"endless":{"type":"array","items":{"$ref":"#/$defs/endless"},"minItems":1}}})");
  INFO(schema);
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary});
  Constraint constraint{.text = schema};
  constraint.options.any_whitespace = false;
  const auto grammar = compiler.compile(constraint);
  std::mt19937 random(7);
  for (int walk = 0; walk < 40; ++walk) {
    Matcher matcher(grammar, {kEnd});
    std::vector<int32_t> words(matcher.mask_words());
    std::string text;
    while (!matcher.ended()) {
      (void)matcher.fill_mask(words);
      std::vector<TokenId> allowed;
      for (TokenId token = 0; token < tokenizer().vocab_size(); ++token) {
        // Zeros behind a point may go on without end.
        if (is_set(words, token) && (token != '0' || text.size() < 60)) allowed.push_back(token);
      }
      INFO(text);
      REQUIRE_FALSE(allowed.empty());
      const TokenId token = allowed[random() % allowed.size()];
      matcher.accept(token);
      if (token != kEnd) text += tokenizer().token_bytes(token);
      REQUIRE(text.size() < 200);
    }
    CHECK(grammar->refuse(text) == "");
  }
}

TEST_CASE("keys of a few names come once, in any order") {
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary});
  const auto taken = [&](const char* schema, const std::string& text) {
    Matcher matcher(compiler.compile({.text = schema}), {kEnd});
    try {
      for (const char c : text) matcher.accept(static_cast<unsigned char>(c));
      matcher.accept(kEnd);
      return true;
    } catch (const grammar::OutsideMask&) {
      return false;
    }
  };
  const char* two = R"({"type":"object","propertyNames":{"enum":["a","b"]},
      "additionalProperties":{"type":"boolean"},"minProperties":2,"maxProperties":2})";
  CHECK(taken(two, R"({"b":true,"a":false})"));
  CHECK(taken(two, R"({"a":true,"b":false})"));
  CHECK_FALSE(taken(two, R"({"b":true,"b":false})"));
  CHECK_FALSE(taken(two, R"({"b":true})"));
  const char* some = R"({"type":"object","properties":{"p":{}},"required":["x"],
      "patternProperties":{"^[mn]$":{"type":"null"}},"additionalProperties":{"type":"integer"}})";
  CHECK(taken(some, R"({"p":1,"n":null,"z":2,"x":3,"m":null,"y":4})"));
  CHECK_FALSE(taken(some, R"({"n":null,"n":null,"x":3})"));
  CHECK_FALSE(taken(some, R"({"n":null})"));
}

TEST_CASE("an end that is given twice is one end") {
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary});
  Matcher matcher(compiler.compile(ebnf(R"(root ::= "a")")), {kEnd, kEnd});
  std::vector<int32_t> words(matcher.mask_words());
  CHECK(matcher.fill_mask(words) == Matcher::Next::tokens);
  matcher.accept('a');
  CHECK(matcher.fill_mask(words) == Matcher::Next::ends_alone);
}

TEST_CASE("a mask at the end of a bounded string has the tokens that fit, within a block or not") {
  const auto [schema, letters, fits] =
      GENERATE(table<const char*, int, bool>({{R"({"type":"string","maxLength":100})", 97, true},
                                              {R"({"type":"string","maxLength":100})", 98, false},
                                              {R"({"type":"string","maxLength":100})", 15, true},
                                              {R"({"type":"string","minLength":60})", 31, true},
                                              {R"({"type":"string","maxLength":30})", 28, false}}));
  INFO(schema << " after " << letters << " letters");
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary});
  Matcher matcher(compiler.compile({.text = schema}), {kEnd});
  std::vector<int32_t> words(matcher.mask_words());
  matcher.accept('"');
  for (int i = 0; i < letters; ++i) matcher.accept('x');
  (void)matcher.fill_mask(words);
  constexpr TokenId kAb = 257, kAbc = 258, kNewlines = 266;
  CHECK(is_set(words, kAbc) == fits);
  CHECK(is_set(words, kAb));
  CHECK_FALSE(is_set(words, kNewlines));
}

TEST_CASE("constraints are compiled once, refusals too, and the cache is bounded") {
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary, .cache_bytes = 20'000});
  const auto first = compiler.compile(ebnf(R"(root ::= "a")"));
  Constraint same = ebnf(R"(root ::= "a")");
  same.field = "guided_grammar";
  CHECK(compiler.compile(same) == first);
  CHECK(compiler.compiled() == 1);
  const std::string message = refusal(compiler, ebnf("root ::= ("));
  CHECK_THAT(message, Catch::Contains("line 1") && !Catch::Contains(".cc"));
  CHECK(refusal(compiler, ebnf("root ::= (")) == message);
  CHECK(compiler.compiled() == 2);
  for (int i = 0; i < 200; ++i) {
    (void)compiler.compile(ebnf("root ::= \"" + std::to_string(i) + "\" [0-9]{20}"));
  }
  const auto again = compiler.compile(same);
  CHECK(again != first);
  CHECK(compiler.compiled() == 203);
  // What is used stays, whatever else comes.
  for (int i = 0; i < 200; ++i) {
    (void)compiler.compile(ebnf("root ::= \"" + std::to_string(i) + "\" [a-z]{20}"));
    REQUIRE(compiler.compile(same) == again);
  }
  CHECK(compiler.compiled() == 403);
}

TEST_CASE("kinds, texts and options tell constraints apart") {
  using Kind = Constraint::Kind;
  Constraint base{.kind = Kind::schema, .text = "{}"};
  std::vector<Constraint> all(9, base);
  all[1].kind = Kind::regex;
  all[2].text = "true";
  all[3].choices = {"a", "b"};
  all[4].choices = {"a1:b"};
  all[5].options.strict = false;
  all[6].options.whitespace_pattern = "";
  all[7].options.any_whitespace = false;
  all[8].options.additional_properties = false;
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) CHECK(all[i].key() != all[j].key());
  }
}

TEST_CASE("grammars that nobody means are refused soon") {
  Compiler compiler(tokenizer(), {.vocab_size = kVocabulary,
                                  .trial = {.time = std::chrono::seconds(2), .memory = 1 << 28}});
  const std::string deep = "root ::= " + std::string(100'000, '(') + "\"a\"";
  const std::string texts[] = {"",
                               "root",
                               "x ::= \"a\"",
                               "root ::= y",
                               "root ::= \"a",
                               "root ::= [",
                               "root ::= \"a\"{5,2}",
                               std::string("root ::= \"\0\"", 12),
                               deep,
                               "root ::= \"" + std::string(300'000, 'a') + "\""};
  for (const std::string& text : texts) {
    INFO(text.substr(0, 40));
    const testing::ProcessorTime time;
    CHECK_FALSE(refusal(compiler, ebnf(text)).empty());
    CHECK(time.seconds() < 20);
  }
}
