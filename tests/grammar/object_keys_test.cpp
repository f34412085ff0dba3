// Keys that come once in each object of an answer.
#include "grammar/object_keys.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "batch/scratch.h"
#include "engine/byte_tokenizer.h"
#include "grammar/compiler.h"
#include "grammar/masks.h"
#include "grammar/matcher.h"

using namespace plimsoll;
using grammar::Compiler;
using grammar::Constraint;
using grammar::Matcher;
using testing::kEnd;
using testing::takes;
using text::TokenId;

namespace {

constexpr int64_t kKeyVocabulary = 320;

const text::Tokenizer& key_tokenizer() {
  static const test::Scratch folder;
  // Ends of keys, whole keys, several of them, and keys behind the ends of values and objects.
  static const text::Tokenizer bytes = testing::byte_tokenizer(
      folder.path(""), {"ab", "a\"", "b\":", "\":", "\"\"", "\"a\":", "\"b\":1", "1,\"", "1,\"a\"",
                        "1},\"a\":", "\\\"", "{\"a\":", "{\"a\":1,\"b\":", "a\\", "\",\"a\":"});
  return bytes;
}

std::string text_of(const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += key_tokenizer().token_bytes(token);
  return text;
}

/// Tells whether an object of a text that need not be whole has a key twice: by nlohmann's reader.
struct Repeats : nlohmann::json_sax<nlohmann::json> {
  std::vector<std::set<std::string>> open;
  bool found = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(size_t) override {
    open.emplace_back();
    return true;
  }
  bool end_object() override {
    open.pop_back();
    return true;
  }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool key(std::string& key) override {
    found = found || !open.back().insert(key).second;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }
};

bool has_repeated_key(const std::string& text) {
  Repeats repeats;
  nlohmann::json::sax_parse(text, &repeats);
  return repeats.found;
}

Constraint schema(const std::string& text) {
  return {.kind = Constraint::Kind::schema, .text = text};
}

std::vector<TokenId> allowed(Matcher& matcher) {
  std::vector<int32_t> words(matcher.mask_words());
  (void)matcher.fill_mask(words);
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < kKeyVocabulary; ++token) {
    if (testing::is_set(words, token)) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

TEST_CASE("a key comes once in each object, and every other token may come as before") {
  // Keys of a and b, so that walks meet keys again; objects in objects and in arrays.
  const std::string text =
      GENERATE(as<std::string>(),
               R"({"type":"object","patternProperties":{"^[ab]{0,3}$":{"anyOf":[{"const":1},
          {"$ref":"#"},{"type":"array","items":{"$ref":"#"}}]}},"additionalProperties":false})",
               R"({"type":"object","patternProperties":{"^[ab]*$":{"enum":[1,"a",",\"a\":"]}},
          "additionalProperties":false,"minProperties":2})",
               R"({"type":"object","properties":{"a":{"const":1}},"required":["a"],
          "patternProperties":{"^[ab]*$":{"const":1}},"additionalProperties":false})");
  INFO(text);
  Compiler compiler(key_tokenizer(), {.vocab_size = kKeyVocabulary});
  const auto grammar = compiler.compile(schema(text));
  const auto without_keys =
      compiler.compile({.kind = Constraint::Kind::ebnf, .text = grammar::ebnf_of_schema(text, {})});
  std::mt19937 random(7);
  int kept_out = 0, ended = 0;
  for (int walk = 0; walk < 30; ++walk) {
    std::vector<TokenId> tokens;
    Matcher matcher(grammar, {kEnd}), free(without_keys, {kEnd});
    while (tokens.size() < 40 && !matcher.ended()) {
      const std::vector<TokenId> next = allowed(matcher);
      std::vector<TokenId> expected, repeating;
      for (const TokenId token : allowed(free)) {
        const std::string after = token == kEnd ? "" : key_tokenizer().token_bytes(token);
        const bool again = has_repeated_key(text_of(tokens) + after);
        (again ? repeating : expected).push_back(token);
      }
      INFO(text_of(tokens));
      if (expected.empty()) {  // keys of three letters can all be there
        REQUIRE(next == repeating);
        break;
      }
      REQUIRE(next == expected);
      kept_out += static_cast<int>(repeating.size());
      // Whitespace is left out, and tokens of several bytes are preferred.
      std::vector<TokenId> chosen;
      for (const TokenId token : next) {
        if (token > kEnd) chosen.insert(chosen.end(), 3, token);
        if (token == kEnd || (token > ' ' && token < kEnd)) chosen.push_back(token);
      }
      const TokenId token = chosen[random() % chosen.size()];
      matcher.accept(token);
      free.accept(token);
      if (token != kEnd) tokens.push_back(token);
    }
    if (matcher.ended()) ++ended;
    CHECK_FALSE(has_repeated_key(text_of(tokens)));
  }
  CHECK(kept_out > 30);
  CHECK(ended > 0);
}

TEST_CASE("a key that is the only one left may come again, and the validator refuses it") {
  Compiler compiler(key_tokenizer(), {.vocab_size = kKeyVocabulary});
  const auto grammar = compiler.compile(schema(
      R"({"type":"object","patternProperties":{"^[ab]*$":{"const":1}},"additionalProperties":false,
          "propertyNames":{"pattern":"^(a|b*)$"},"minProperties":3})"));
  Matcher matcher(grammar, {kEnd});
  const auto write = [&](const std::string& text) {
    for (const char byte : text) matcher.accept(static_cast<uint8_t>(byte));
  };
  write(R"({"":1,"a":1,"b":1,)");
  CHECK_FALSE(allowed(matcher).empty());
  write("\"");
  // The empty key may not come again, keys that begin with a and b may.
  std::vector<TokenId> next = allowed(matcher);
  CHECK_FALSE(std::ranges::binary_search(next, TokenId{'"'}));
  CHECK(std::ranges::binary_search(next, TokenId{'a'}));
  write("a");
  next = allowed(matcher);
  CHECK(std::ranges::binary_search(next, TokenId{'"'}));  // there is none but a's end
  write("\":1}");
  CHECK(matcher.ended() == false);
  CHECK(grammar->refuse(R"({"":1,"a":1,"b":1,"a":1})") != "");
}

TEST_CASE("answers that are not JSON may repeat what looks like keys") {
  Compiler compiler(key_tokenizer(), {.vocab_size = kKeyVocabulary});
  const auto grammar =
      compiler.compile({.kind = Constraint::Kind::regex, .text = R"(\{"a":1,"[ab]":1\})"});
  Matcher matcher(grammar, {kEnd});
  for (const char byte : std::string(R"({"a":1,"a)")) matcher.accept(static_cast<uint8_t>(byte));
  CHECK(std::ranges::binary_search(allowed(matcher), TokenId{'"'}));
}

TEST_CASE("the place in a JSON text tells keys from other strings") {
  const auto keys_of = [](const std::string& text) {
    grammar::JsonPlace place;
    std::string keys;
    for (const char byte : text)
      if (place.read(byte)) keys += place.key() + "@" + std::to_string(place.depth()) + " ";
    return keys;
  };
  CHECK(keys_of(R"({"a":"b","c":["d","e",{"f":"\"g"}],"h\"\\":{}})") == R"(a@1 c@1 f@3 h\"\\@1 )");
  CHECK(keys_of(R"(["a",{"":1,"b":2},"c"])") == "@2 b@2 ");
  CHECK(keys_of(R"("a")").empty());
}
