#include "engine/sampling/output_text.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "engine/byte_tokenizer.h"
#include "engine/tiny_model.h"

using namespace plimsoll;
using namespace plimsoll::engine;
using testing::byte_ids;

namespace {

constexpr TokenId kEnd = 256, kHello = 257, kCut = 258;

const text::Tokenizer& tokenizer() {
  static const testing::TemporaryFolder folder("tokenizer");
  static const text::Tokenizer bytes =
      testing::byte_tokenizer(folder.path(), {"hello world", "xxEND\n\nyy"});
  return bytes;
}

/// A tokenizer of sentencepiece's kind: newlines and rare characters are spelt in byte tokens.
const text::Tokenizer& fallback_tokenizer() {
  static const testing::TemporaryFolder folder("fallback");
  static const text::Tokenizer fallback = [] {
    Json vocabulary = {{"a", 300}, {"\u2581b", 301}};
    for (int byte = 0; byte < 256; ++byte) vocabulary[fmt::format("<0x{:02X}>", byte)] = byte;
    const Json decoders = {
        {{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
        {{"type", "ByteFallback"}},
        {{"type", "Fuse"}}};
    const Json file = {{"version", "1.0"},
                       {"added_tokens", Json::array()},
                       {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
                       {"model",
                        {{"type", "BPE"},
                         {"byte_fallback", true},
                         {"vocab", vocabulary},
                         {"merges", Json::array()}}}};
    const auto path = folder.path() / "tokenizer.json";
    std::ofstream(path) << file.dump();
    return text::Tokenizer::load(path);
  }();
  return fallback;
}

struct Ending {
  std::string text;
  std::string stop;  // the stop string that hit
  size_t tokens = 0;
};

/// Pushes tokens until a stop string hits or they are at their end.
Ending run(const text::Tokenizer& with, const std::vector<TokenId>& ids,
           const SamplingParams& params) {
  const StopStrings strings(params.stop);
  OutputText text(&with, {}, params, strings);
  Ending ending;
  const std::string* hit = nullptr;
  for (const TokenId id : ids) {
    hit = text.push(id);
    ++ending.tokens;
    if (hit != nullptr) break;
  }
  if (hit == nullptr) hit = text.finish();
  if (hit != nullptr) ending.stop = *hit;
  ending.text = text.take();
  return ending;
}

SamplingParams stops(std::vector<std::string> strings) {
  SamplingParams params;
  params.stop = std::move(strings);
  return params;
}

}  // namespace

TEST_CASE("text is cut before a stop string that spans tokens") {
  const Ending ending = run(tokenizer(), byte_ids("one END two"), stops({"END"}));
  CHECK(ending.text == "one ");
  CHECK(ending.stop == "END");
  CHECK(ending.tokens == 7);
}

TEST_CASE("a stop string within a token cuts the token") {
  const Ending ending = run(tokenizer(), {kHello, kCut, kHello}, stops({"END\n\n"}));
  CHECK(ending.text == "hello worldxx");
  CHECK(ending.tokens == 2);
}

TEST_CASE("a stop string is kept when asked for, and nothing after it") {
  SamplingParams params = stops({"END\n"});
  params.include_stop_str_in_output = true;
  CHECK(run(tokenizer(), {kCut}, params).text == "xxEND\n");
}

TEST_CASE("half of a stop string at the end is text") {
  const Ending ending = run(tokenizer(), byte_ids("one EN"), stops({"END"}));
  CHECK(ending.text == "one EN");
  CHECK(ending.stop.empty());
}

TEST_CASE("nothing stops within min_tokens, but a stop string may begin there") {
  SamplingParams params = stops({"ab"});
  params.min_tokens = 3;
  CHECK(run(tokenizer(), byte_ids("ab.ab"), params).text == "ab.");
  CHECK(run(tokenizer(), byte_ids("..ab."), params).text == "..");
  CHECK(run(tokenizer(), byte_ids(".ab.."), params).text == ".ab..");
}

TEST_CASE("characters come whole, and broken ones at the end as U+FFFD") {
  CHECK(run(tokenizer(), byte_ids("caf\xc3\xa9"), {}).text == "caf\xc3\xa9");
  CHECK(run(tokenizer(), byte_ids("caf\xc3"), {}).text == "caf\xef\xbf\xbd");
  CHECK(run(tokenizer(), byte_ids("\xc3\xa9\xc3\xa8!"), stops({"\xc3\xa8"})).text == "\xc3\xa9");
}

TEST_CASE("special tokens are text only when asked for") {
  SamplingParams params;
  CHECK(run(tokenizer(), {'a', kEnd, 'b'}, params).text == "ab");
  params.skip_special_tokens = false;
  CHECK(run(tokenizer(), {'a', kEnd, 'b'}, params).text == "a<eos>b");
}

TEST_CASE("byte tokens stop at once, though more of them could change the text") {
  const Ending newline = run(fallback_tokenizer(), {300, '\n', '\n', '\n', 301}, stops({"\n\n"}));
  CHECK(newline.text == "a");
  CHECK(newline.tokens == 3);
  const Ending kept = run(fallback_tokenizer(), {300, '\n', 301, '\n', '\n'}, stops({"\n\n"}));
  CHECK(kept.text == "a\n b");
  CHECK(kept.tokens == 5);
  // An unfinished character is no match for anything.
  const Ending half = run(fallback_tokenizer(), {300, 0xc3, 0xa9, 300}, stops({"\xef\xbf\xbd"}));
  CHECK(half.text ==
        "a\xc3\xa9"
        "a");
}

TEST_CASE("without a tokenizer or detokenizing there is no text") {
  const StopStrings none({});
  SamplingParams params;
  OutputText bare(nullptr, {}, params, none);
  CHECK(bare.push(65) == nullptr);
  CHECK(bare.finish() == nullptr);
  CHECK(bare.take().empty());
  params.detokenize = false;
  CHECK(run(tokenizer(), byte_ids("abc"), params).text.empty());
}

TEST_CASE("cut texts are those of looking through the whole text at every token") {
  std::mt19937 random(3);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::vector<std::string> letters = {"a", "b", "\n", "\xc3\xa9", "\xe2\x82\xac"};
  const auto words = [&](size_t most) {
    std::string text;
    for (size_t i = 0; i <= below(most); ++i) text += letters[below(letters.size())];
    return text;
  };
  for (int round = 0; round < 500; ++round) {
    SamplingParams params;
    for (size_t i = 0; i <= below(4); ++i) params.stop.push_back(words(4));
    params.include_stop_str_in_output = below(2) == 0;
    const std::vector<TokenId> ids = byte_ids(words(40));
    std::string expected;
    for (size_t count = 1; count <= ids.size(); ++count) {
      expected = tokenizer().decode(std::span(ids).first(count), text::Specials::skip);
      size_t cut = std::string::npos;
      size_t end = 0;
      for (const std::string& stop : params.stop) {
        const size_t at = expected.find(stop);
        if (at < cut) cut = at, end = at + stop.size();
      }
      if (cut == std::string::npos) continue;
      expected.resize(params.include_stop_str_in_output ? end : cut);
      break;
    }
    REQUIRE(run(tokenizer(), ids, params).text == expected);
  }
}
