// Automata of regular expressions against PCRE2: texts made of each pattern's own characters.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "grammar/patterns/regex.h"

#include <pcre2.h>

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "reference/recognizer.h"

using namespace plimsoll;

namespace {

const std::vector<const char*> kPatterns = {"",
                                            "a",
                                            "^a",
                                            "a$",
                                            "^a$",
                                            "^$",
                                            "a|b",
                                            "^a|b$",
                                            "(^a|b)c",
                                            "a*b",
                                            "^a*$",
                                            "^a+b?c{2}$",
                                            "^a{0}$",
                                            "^(ab){1,3}$",
                                            "^a{2,}$",
                                            "^(a|ab)(c|bcd)$",
                                            "^[abc]+$",
                                            "^[^abc]*$",
                                            "^[a-c-]+$",
                                            "^[]a]",
                                            "[^]",
                                            "^\\d+$",
                                            "^\\D$",
                                            "^\\w+$",
                                            "^\\W+$",
                                            "^\\s+$",
                                            "^\\S*$",
                                            ".",
                                            "^.$",
                                            "^a.c$",
                                            "\\.",
                                            "\\/",
                                            "\\-",
                                            "^\\x61$",
                                            "^\\u0061$",
                                            "^\\t\\n$",
                                            "^\\cJ$",
                                            "^(?:a|b)+$",
                                            "^(?<n>a)b$",
                                            "^(?=a)ab",
                                            "^(?!a)[a-c]+$",
                                            "^(?!.*b).*$",
                                            "a(?=b)",
                                            "a(?!b)",
                                            "^(?=.*a)(?=.*b).{2,4}$",
                                            "^(?!(a|b)$).+",
                                            "^((?!b)a|b)c?$",
                                            "(^|b)a",
                                            "a($|b)",
                                            "^a*?b+?$",
                                            "^(a?){3}$",
                                            "^(a*)*$",
                                            "^\\p{L}+$",
                                            "^\\p{Lu}",
                                            "^\\P{L}+$",
                                            "^\\p{Nd}*$",
                                            "^[\\p{L}\\d_-]+$",
                                            "^\\p{Greek}+$",
                                            "^[\\w.-]+$",
                                            "a{,2}",
                                            "a{",
                                            "x{1",
                                            "^}$",
                                            "^]$",
                                            "^[$.^]+$",
                                            "^(a|)$",
                                            "^(|a|ab)b$"};

const std::vector<const char*> kLetters = {
    "a", "b", "c", "A", "1", " ", "-",  "_",  ".",      "/",      "]",      "{",
    "}", ",", "2", "x", "$", "^", "\t", "\n", "\u00e9", "\u03b1", "\u4f60", "\U0001F600"};

bool found(const std::string& pattern, const std::string& text) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX |
                                       PCRE2_MATCH_UNSET_BACKREF | PCRE2_ALLOW_EMPTY_CLASS,
                                   &error, &offset, nullptr);
  INFO(pattern);
  REQUIRE(code != nullptr);
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  const int count = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                match, nullptr);
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return count >= 0;
}

}  // namespace

TEST_CASE("automata of patterns take the texts in which PCRE2 finds them") {
  std::mt19937 random(7);
  for (const char* pattern : kPatterns) {
    // "[]a]" is a class of "]" and "a" in PCRE2 but for the option above; "$" and "^" agree.
    const grammar::Dfa dfa = grammar::dfa_of_regex(pattern, grammar::Match::search);
    for (int i = 0; i < 200; ++i) {
      std::string text;
      const size_t length = random() % 6;
      const size_t letters = i % 2 == 0 ? 3 : kLetters.size();
      for (size_t k = 0; k < length; ++k) text += kLetters[random() % letters];
      INFO(pattern << " in " << text);
      CHECK(dfa.accepts(text) == found(pattern, text));
    }
  }
}

TEST_CASE("grammars of regular expressions and choices take whole texts") {
  const testing::Recognizer regex(grammar::ebnf_of_regex("[a-c]{2,3}(\\n|\u00e9)?"));
  CHECK(regex.accepts("ab"));
  CHECK(regex.accepts("abc\n"));
  CHECK(regex.accepts("abc\u00e9"));
  CHECK_FALSE(regex.accepts("a"));
  CHECK_FALSE(regex.accepts("xab"));
  const std::vector<std::string> texts = {"yes", "no \"quoted\"\n", "\u4f60"};
  const testing::Recognizer choice(grammar::ebnf_of_choice(texts));
  for (const auto& text : texts) CHECK(choice.accepts(text));
  CHECK_FALSE(choice.accepts("ye"));
  CHECK_FALSE(choice.accepts("yesno"));
  CHECK_THROWS_AS(grammar::ebnf_of_choice({}), Error);
}

TEST_CASE("what no automaton stands for is refused with its place") {
  for (const char* pattern : {"(a)\\1", "\\ba", "(?<=a)b", "(?<!a)b", "(", ")", "[", "a**",
                              "\\p{No_Such}", "[z-a]", "a{3,2}", "\\", "\\q", "(?i)a", "\\k<n>"}) {
    INFO(pattern);
    CHECK_THROWS_AS(grammar::ebnf_of_regex(pattern), Error);
  }
}
