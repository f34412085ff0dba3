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

TEST_CASE("numbers of Python keep sign, fraction and exponent, and become JSON's") {
  struct Row {
    const char* number;
    const char* json;
  };
  for (const Row& row :
       {Row{"0", "0"}, Row{"-7", "-7"}, Row{"+7", "7"}, Row{"0.25", "0.25"}, Row{"-.5", "-0.5"},
        Row{"5.", "5.0"}, Row{"1e5", "1e5"}, Row{"1e-05", "1e-05"}, Row{"1E-5", "1e-5"},
        Row{"1e+16", "1e16"}, Row{"-2.5E+3", "-2.5e3"}, Row{"-.5e-3", "-0.5e-3"}}) {
    INFO(row.number);
    const std::string number = row.number, json = row.json;
    // A tuple is Python's alone; a number by itself may be JSON already.
    CHECK(text::json_of_literal("(" + number + ", " + number + ")") ==
          "[" + json + ", " + json + "]");
  }
  for (const std::string number : {"-", "+", ".", "--1", "+-1", "1e", "1e-", "1e+", "1e--5", "e5",
                                   "01", "1.5x", "1e5x", "1 2"}) {
    INFO(number);
    CHECK(!text::json_of_literal("(" + number + ",)"));
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
