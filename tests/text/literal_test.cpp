// Literals of Python in answers, as JSON.
#include <catch2/catch.hpp>
#include <string>

#include "base/json.h"
#include "text/answer/call_bodies.h"

using namespace plimsoll;

TEST_CASE("strings of Python are read with all their escapes") {
  struct Row {
    std::string literal, text;
  };
  for (const Row& row : {Row{R"('\\\'\"\a\b\f\n\r\t\v')", "\\'\"\a\b\f\n\r\t\v"},
                         Row{R"('\q\8')", "\\q\\8"},  // no escapes: they stay
                         Row{"'a\\\nb'", "ab"},       // a line that goes on
                         Row{R"('\x41\u00e9\U0001F600')", "A\u00e9\U0001F600"},
                         Row{R"('\ud83d\ude00')", "\U0001F600"},
                         Row{R"('\ud7ff\ue000\U0010ffff')", "\ud7ff\ue000\U0010ffff"},
                         Row{R"("it's")", "it's"}, Row{"'''a'b\n'''", "a'b\n"}, Row{"''", ""}}) {
    INFO(row.literal);
    const auto json = text::json_of_literal(row.literal);
    REQUIRE(json);
    CHECK(parse_json<Json>(*json) == row.text);
  }
}

TEST_CASE("what is no string of Python is no literal") {
  for (const char* literal : {R"('\ud83d')", R"('\ud83d\u0041')", R"('\ud83d\ue000')",
                              R"('\ude00')", R"('\udfff')", R"('\U00110000')", R"('\x4')",
                              R"('\xg1')", R"('\u12')", "'\\", "'a", "'a' b", "'''a''", "a"}) {
    INFO(literal);
    CHECK(!text::json_of_literal(literal));
  }
}
