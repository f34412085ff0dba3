// Arrays: how many items they may have, by all keywords that count them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"
#include "reference/recognizer.h"

using namespace plimsoll;

namespace {

constexpr size_t kNoLimit = 100;
constexpr size_t kLongest = 5;

/// [0,1,2...] of so many items.
std::string counted_up(size_t length) {
  std::string text;
  for (size_t i = 0; i < length; ++i) text += fmt::format("{}{}", i > 0 ? "," : "", i);
  return "[" + text + "]";
}

/// Checks that a schema takes [0,1,2...] at the lengths from `least` to `most` and at no other.
void check_lengths(const std::string& text, size_t least, size_t most) {
  INFO(text);
  const grammar::JsonSchema schema(text);
  if (least > most) {
    CHECK_THROWS_AS(schema.ebnf({}), Error);
    return;
  }
  const testing::Recognizer recognizer(schema.ebnf({}));
  for (size_t length = 0; length <= kLongest; ++length) {
    INFO(length);
    const bool taken = length >= least && length <= most;
    CHECK(recognizer.accepts(counted_up(length)) == taken);
    CHECK(schema.refuse(counted_up(length)).empty() == taken);
  }
}

/// A schema of arrays with these keywords and bounds.
std::string array_schema(const std::string& keywords, size_t least, size_t most) {
  return fmt::format(R"({{"type":"array",{}"minItems":{}{}}})", keywords, least,
                     most == kNoLimit ? "" : fmt::format(R"(,"maxItems":{})", most));
}

/// Each pair of bounds with few items.
template <typename Check>
void for_each_bounds(const Check& check) {
  for (const size_t most : {size_t{0}, size_t{2}, size_t{3}, kNoLimit}) {
    for (size_t least = 0; least <= std::min<size_t>(most, 3); ++least) check(least, most);
  }
}

}  // namespace

TEST_CASE("arrays of prefixItems may end after each number of items that the bounds allow") {
  for (size_t prefix = 1; prefix <= 3; ++prefix) {
    std::string items;
    for (size_t i = 0; i < prefix; ++i)
      items += fmt::format(R"({}{{"const":{}}})", i > 0 ? "," : "", i);
    for (const std::string rest : {"", R"("items":false,)"}) {
      const size_t longest = rest == R"("items":false,)" ? prefix : kNoLimit;
      for_each_bounds([&](size_t least, size_t most) {
        check_lengths(array_schema(R"("prefixItems":[)" + items + "]," + rest, least, most), least,
                      std::min(most, longest));
      });
    }
  }
}

TEST_CASE("the opposite of an array's keywords takes just the arrays that do not meet them") {
  using Items = std::vector<int>;
  struct Row {
    const char* keywords;
    std::function<bool(const Items&)> is_met;
  };
  const auto is_at = [](const Items& items, size_t place, int item) {
    return place >= items.size() || items[place] == item;
  };
  const auto ones = [](const Items& items) { return std::ranges::count(items, 1); };
  const Row rows[] = {
      {R"("prefixItems":[{"const":0}])", [&](const Items& a) { return is_at(a, 0, 0); }},
      {R"("prefixItems":[{"const":0},{"const":1}])",
       [&](const Items& a) { return is_at(a, 0, 0) && is_at(a, 1, 1); }},
      {R"("prefixItems":[true,{"const":1}])", [&](const Items& a) { return is_at(a, 1, 1); }},
      {R"("prefixItems":[true,true,{"const":1}])", [&](const Items& a) { return is_at(a, 2, 1); }},
      {R"("prefixItems":[true,false])", [&](const Items& a) { return a.size() < 2; }},
      {R"("prefixItems":[{"const":0}],"items":false)",
       [&](const Items& a) { return a.size() < 2 && is_at(a, 0, 0); }},
      {R"("prefixItems":[{"const":0}],"items":{"const":1})",
       [&](const Items& a) {
         return is_at(a, 0, 0) && ones(a) == std::max<long>(0, std::ssize(a) - 1);
       }},
      {R"("prefixItems":[{"const":0}],"minItems":2,"maxItems":2)",
       [&](const Items& a) { return a.size() == 2 && is_at(a, 0, 0); }},
      {R"("items":{"const":1})", [&](const Items& a) { return ones(a) == std::ssize(a); }},
      {R"("items":false)", [&](const Items& a) { return a.empty(); }},
      {R"("minItems":1)", [&](const Items& a) { return !a.empty(); }},
      {R"("minItems":2)", [&](const Items& a) { return a.size() >= 2; }},
      {R"("maxItems":0)", [&](const Items& a) { return a.empty(); }},
      {R"("maxItems":2)", [&](const Items& a) { return a.size() <= 2; }},
      {R"("minItems":1,"maxItems":2)",
       [&](const Items& a) { return a.size() == 1 || a.size() == 2; }},
      {R"("contains":{"const":1})", [&](const Items& a) { return ones(a) >= 1; }},
      {R"("contains":{"const":1},"minContains":2)", [&](const Items& a) { return ones(a) >= 2; }},
      {R"("contains":{"const":1},"minContains":0,"maxContains":1)",
       [&](const Items& a) { return ones(a) <= 1; }},
      {R"("contains":{"const":1},"maxContains":2)",
       [&](const Items& a) { return ones(a) == 1 || ones(a) == 2; }},
  };
  for (const Row& row : rows) {
    INFO(row.keywords);
    const grammar::JsonSchema schema(
        fmt::format(R"({{"type":"array","items":{{"enum":[0,1]}},"not":{{{}}}}})", row.keywords));
    const testing::Recognizer recognizer(schema.ebnf({}));
    for (size_t length = 0; length <= 4; ++length) {
      for (size_t bits = 0; bits < size_t{1} << length; ++bits) {
        Items items;
        for (size_t i = 0; i < length; ++i) items.push_back(static_cast<int>((bits >> i) & 1));
        const std::string text = fmt::format("[{}]", fmt::join(items, ","));
        INFO(text);
        CHECK(recognizer.accepts(text) == !row.is_met(items));
        CHECK(schema.refuse(text).empty() == !row.is_met(items));
      }
    }
  }
}

TEST_CASE("arrays whose items are alike, counted or unique have each number of items in bounds") {
  for (const std::string keywords :
       {R"("items":{"type":"integer"},)", R"("items":{"enum":[0,1,2,3]},"uniqueItems":true,)"})
    for_each_bounds([&](size_t least, size_t most) {
      check_lengths(array_schema(keywords, least, most), least,
                    keywords.ends_with("true,") ? std::min<size_t>(most, 4) : most);
    });
  // The 2nd and 3rd item of [0,1,2...] are met.
  const std::string met = R"("contains":{"enum":[1,2]},)";
  for_each_bounds([&](size_t least, size_t most) {
    if (most == 2) {
      check_lengths(array_schema(met + R"("minContains":0,"maxContains":1,)", least, most), least,
                    most);
    } else if (most > 2) {
      check_lengths(array_schema(met, least, most), std::max<size_t>(least, 2), most);
      check_lengths(array_schema(met + R"("minContains":2,)", least, most),
                    std::max<size_t>(least, 3), most);
    }
  });
}
