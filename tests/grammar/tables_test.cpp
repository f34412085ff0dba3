// Regular expressions and grammars against tables that references made (tests/against/regexes,
// grammars).
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/patterns/regex.h"
#include "reference/recognizer.h"

using namespace plimsoll;
using testing::Recognizer;

namespace {

std::vector<Json> table_rows(const std::string& name) {
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/tests/data/grammars/" + name);
  std::vector<Json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  return rows;
}

/// The message with which `work` throws; empty where it does not.
template <typename Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// Checks that a recognizer takes the texts of "takes", and none of "leaves".
template <typename Accepts>
void check_texts(const Json& row, const Accepts& accepts) {
  for (const char* side : {"takes", "leaves"}) {
    for (const std::string text : row[side]) {
      INFO(side << " " << Json(text).dump());
      CHECK(accepts(text) == (std::string(side) == "takes"));
    }
  }
}

}  // namespace

TEST_CASE("regular expressions take the texts that ECMA-262's do") {
  int taken = 0;
  for (const Json& row : table_rows("regexes.jsonl")) {
    const std::string pattern = row["pattern"];
    INFO(pattern);
    std::string ebnf;
    const std::string refusal = message_of([&] { ebnf = grammar::ebnf_of_regex(pattern); });
    if (row.contains("refused")) {
      CHECK_THAT(refusal, Catch::Contains(row["refused"].get<std::string>()));
      continue;
    }
    REQUIRE(refusal.empty());
    ++taken;
    const grammar::Dfa dfa = grammar::dfa_of_regex(pattern, grammar::Match::whole);
    check_texts(row, [&](const std::string& text) { return dfa.accepts(text); });
    const Recognizer recognizer(ebnf);
    check_texts(row, [&](const std::string& text) { return recognizer.accepts(text); });
  }
  CHECK(taken >= 200);
}

TEST_CASE("grammars take the texts that the documentation of their notation says") {
  const std::vector<Json> rows = table_rows("ebnf.jsonl");
  CHECK(rows.size() >= 200);
  for (const Json& row : rows) {
    const std::string text = row["grammar"];
    INFO(text);
    if (row.contains("refused")) {
      const std::string refusal = message_of([&] { const Recognizer refused(text); });
      CHECK_THAT(refusal, Catch::Contains(row["refused"].get<std::string>()));
      continue;
    }
    const Recognizer recognizer(text);
    check_texts(row, [&](const std::string& answer) { return recognizer.accepts(answer); });
  }
}
