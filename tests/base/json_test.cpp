// JSON lines and files as they should not be.
#include "base/json.h"

#include <catch2/catch.hpp>

namespace plimsoll {
namespace {

TEST_CASE("a NUL ends no text: what stands behind it is not passed over") {
  using namespace std::string_literals;
  for (const std::string& text : {"{\"a\":1}\0"s, "{\"a\":1}\0{\"a\":2}"s, "1 \0 2"s, "\"a\"\0"s}) {
    INFO(text.size());
    try {
      parse_json(text);
      FAIL("was taken");
    } catch (const JsonError& error) {
      CHECK(error.what() == "a NUL character"s);
      CHECK(error.line == 1);
      CHECK(error.column == text.find('\0') + 1);
    }
  }
  CHECK_THROWS_AS(parse_json("{\"a\":\0 1}"s), JsonError);
  CHECK(parse_json("\"a\\u0000b\"").get<std::string>() == "a\0b"s);
}

}  // namespace
}  // namespace plimsoll
