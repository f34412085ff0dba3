#include "engine/sampling/stop_strings.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <vector>

using namespace plimsoll::engine;

namespace {

struct Cut {
  size_t begin = std::string::npos;
  size_t end = 0;
  size_t index = 0;
  bool operator==(const Cut&) const = default;
};

/// Looks through the whole text: the earliest stop string, of those the one listed first.
Cut naive(const std::string& text, const std::vector<std::string>& strings) {
  Cut best;
  for (size_t i = 0; i < strings.size(); ++i) {
    const size_t at = text.find(strings[i]);
    if (at < best.begin) best = {at, at + strings[i].size(), i};
  }
  return best;
}

Cut fed(const std::vector<std::string>& pieces, const std::vector<std::string>& strings) {
  const StopStrings automaton(strings);
  StopSearch search(automaton);
  for (const std::string& piece : pieces) {
    if (const auto hit = search.feed(piece)) return {hit->begin, hit->end, hit->index};
  }
  return {};
}

}  // namespace

TEST_CASE("stop strings are found over borders of pieces") {
  CHECK(fed({"he", "ll", "o"}, {"llo"}) == Cut{2, 5, 0});
  CHECK(fed({"a", "b", "c"}, {"abc"}) == Cut{0, 3, 0});
  CHECK(fed({"aab"}, {"ab"}) == Cut{1, 3, 0});
  CHECK(fed({"abab", "ac"}, {"abac"}) == Cut{2, 6, 0});
  CHECK(fed({"nothing"}, {"llo"}) == Cut{});
}

TEST_CASE("of several the earliest counts, then the one listed first") {
  CHECK(fed({"xabcx"}, {"b", "abc"}) == Cut{1, 4, 1});
  CHECK(fed({"xabcx"}, {"abc", "ab"}) == Cut{1, 4, 0});
  CHECK(fed({"xabcx"}, {"ab", "abc"}) == Cut{1, 3, 0});
  CHECK(fed({"xab", "cx"}, {"abc", "ab"}) == Cut{1, 3, 1});
  CHECK(fed({"xy"}, {"y", "y"}) == Cut{1, 2, 0});
}

TEST_CASE("empty strings stop nothing") {
  CHECK(fed({"abc"}, {"", "c"}) == Cut{2, 3, 1});
  CHECK(fed({"abc"}, {""}) == Cut{});
}

TEST_CASE("the search answers as looking through the whole text does") {
  std::mt19937 random(1);
  const auto letters = [&](size_t least, size_t most) {
    std::string text(least + random() % (most - least + 1), ' ');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 3);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> strings(1 + random() % 6);
    for (std::string& string : strings) string = letters(1, 5);
    std::string text;
    const StopStrings automaton(strings);
    StopSearch search(automaton);
    while (text.size() < 60) {
      const std::string piece = letters(0, 4);
      text += piece;
      const Cut expected = naive(text, strings);
      const auto hit = search.feed(piece);
      REQUIRE(hit.has_value() == (expected.begin != std::string::npos));
      if (!hit) continue;
      REQUIRE(Cut{hit->begin, hit->end, hit->index} == expected);
      break;
    }
  }
}

TEST_CASE("ten thousand stop strings cost what one does") {
  std::vector<std::string> strings;
  for (int i = 0; i < 10'000; ++i) strings.push_back(std::string(20, 'a') + std::to_string(i));
  const StopStrings automaton(strings);
  StopSearch search(automaton);
  // Against every string alone this text would take minutes.
  const std::string text(100'000, 'a');
  CHECK_FALSE(search.feed(text));
  CHECK(search.feed("9999")->index == 9);
}
