// Oniguruma's Ruby syntax, run by PCRE2: expected matches from Hugging Face tokenizers
// (Oniguruma 6.9.10).
#include <catch2/catch.hpp>

#include "text/regex/regex.h"
#include "text/text_error.h"

namespace plimsoll::text {
namespace {

using Matches = std::vector<std::string>;

Matches matches(const std::string& pattern, const std::string& text) {
  Matches out;
  Regex(pattern).for_each_match(
      text, [&](size_t begin, size_t end) { out.push_back(text.substr(begin, end - begin)); });
  return out;
}

TEST_CASE("patterns mean what Oniguruma says") {
  struct Row {
    const char* why;
    const char* pattern;
    std::string text;
    Matches expected;
  };
  const std::vector<Row> rows = {
      {"an interval followed by + repeats", R"(\p{N}{1,3}+)", "1234567", {"1234567"}},
      {"{n}? is greedy and optional", "a{2}?", "aaaa", {"aa", "aa"}},
      {"\\h is a hex digit", R"(\h+)", "face xyz", {"face"}},
      {"classes intersect", "[a-z&&[^aeiou]]+", "hello", {"h", "ll"}},
      {"classes nest", "[a-c[x-z]]+", "abzdx", {"abz", "x"}},
      {"negated property", R"(\p{^L}+)", "ab12", {"12"}},
      {"punct holds symbols", "[[:punct:]]+", "a$,b", {"$,"}},
      {"(?m) is dotall", "(?m:a.b)", "a\nb", {"a\nb"}},
      {"^ is every line's start", "^b", "a\nb", {"b"}},
      {"\\u", R"(\u0061)", "xa", {"a"}},
      {"{,n}", "x{,2}", "xxxx", {"xx", "xx"}},
      {"lookbehind of two lengths", "(?<=ab|c)d", "abdcd", {"d", "d"}},
      {"long property name", R"(\p{Letter}+)", "ab1", {"ab"}},
      {"bytes of a character", R"(\xE3\x81\x82)", "\u3042", {"\u3042"}},
      {"possessive", "a?+a", "a", {}},
      {"caseless", "(?i:'LL)", "we'll", {"'ll"}},
      {"long s", "(?i:'s)", "'\u017f", {"'\u017f"}},
      {"\\w holds marks", R"(\w+)", "e\u0301 x", {"e\u0301", "x"}},
      {"\\s is White_Space",
       R"(\s+)",
       "a\u0085\u3000"
       "b\u180e",
       {"\u0085\u3000"}},
      {"letters of Unicode 16", R"(\p{L})", "\u1c89", {"\u1c89"}},
      {"script", R"(\p{Han}+)", "\u4e9c\u3042", {"\u4e9c"}},
      {"empty matches", "x*", "axb", {"", "x", ""}},
      {"GPT-2",
       R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       "it's  12!\n",
       {"it", "'s", " ", " 12", "!", "\n"}}};
  for (const Row& row : rows) {
    INFO(row.why << ": " << row.pattern);
    CHECK(matches(row.pattern, row.text) == row.expected);
  }
}

TEST_CASE("patterns that cannot be used are named") {
  for (const char* pattern :
       {"(", ")", "[", "[z-a]", "*", R"(\p{Nope})", R"(\)", "(?<=a+)b", R"(\x{D800})", "a)b"}) {
    INFO(pattern);
    CHECK_THROWS_AS(Regex(pattern), RegexError);
  }
  CHECK_THROWS_WITH(Regex("[z-a]"), Catch::Contains("runs backwards"));
  CHECK_THROWS_AS(Regex(std::string(200, '(') + std::string(200, ')')), RegexError);
}

TEST_CASE("catastrophic patterns give up") {
  const std::string text = std::string(5000, 'a') + "!";
  for (const char* pattern : {"(a+)+$", "(a|aa)+$"}) {
    INFO(pattern);
    CHECK_THROWS_AS(matches(pattern, text), TextError);
  }
}

TEST_CASE("a search without matches meets its window's end between characters") {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "\u4e9c";
  CHECK(matches("b", text).empty());
  CHECK(matches("b", text + "b") == Matches{"b"});
  CHECK(matches("[^\u4e9c]", text).empty());  // half a character would be another one
}

}  // namespace
}  // namespace plimsoll::text
