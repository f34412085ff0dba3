// JSON lines and files as they should not be.
#include "base/json.h"

#include <catch2/catch.hpp>

#include "base/long_strings.h"

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

std::string long_text(char c, size_t more = 0) {
  return std::string(Outline::kLong + more, c);
}

TEST_CASE("long strings are what they are without being parsed") {
  const std::string a = long_text('a'), b = long_text('b', 5), tab = long_text('c') + "\\t\\\"";
  const std::string text = R"({"a":[")" + a + R"(","",")" + b + R"("],"t":")" + tab + R"(",")" + b +
                           R"(":{"a":")" + a + R"("},"é":")" + long_text('d') + "\xC3\xA9\"}";
  const Json read = parse_json(text);
  CHECK(read == parse_json_from<Json>(std::string(text)));
  CHECK(read["a"] == Json{a, "", b});
  CHECK(read["t"] == long_text('c') + "\t\"");
  CHECK(read[b]["a"] == a);
  CHECK(read["é"] == long_text('d') + "é");
  CHECK(parse_json('"' + a + '"') == Json(a));
}

TEST_CASE("backslashes in front of a long string's quote end it where they are pairs") {
  const std::string end = long_text('b');
  for (const char* slashes : {R"(\\)", R"(\\\\)", R"(\\\")"}) {
    INFO(slashes);
    const std::string text =
        R"({"path":")" + long_text('a') + slashes + R"(","url":")" + end + R"("})";
    const Outline outline(text);
    REQUIRE(outline.strings().size() == 1);
    CHECK(outline.strings()[0].number == 3);
    CHECK(outline.strings()[0].at == text.find(end));
    CHECK(parse_json_from<Json>(std::string(text)) == parse_json(text));
    CHECK(parse_json(text)["url"] == end);
  }
}

TEST_CASE("the longest string of a text that is spent takes over its memory") {
  std::string text = R"({"id":1,"url":")" + long_text('a', 1000) + R"("})";
  const char* memory = text.data();
  const Json read = parse_json_from<Json>(std::move(text));
  const auto& url = read["url"].get_ref<const std::string&>();
  CHECK(url == long_text('a', 1000));
  CHECK(url.data() == memory);
}

TEST_CASE("what is wrong behind a long string is told at its place") {
  const auto column = [](const std::string& text) {
    try {
      parse_json(text);
    } catch (const JsonError& error) {
      return error.column;
    }
    return size_t{0};
  };
  const std::string a = long_text('a');
  const size_t value = 6 + a.size();  // {"a":"
  CHECK(column(R"({"a":")" + a + R"(",})") == value + 3);
  CHECK(column(R"({"a":")" + a + R"(" 1)") == value + 3);
  CHECK(column("{\"a\":\n\"" + a + "\",}") == a.size() + 4);
  CHECK(column(R"({"a":x")" + a + R"("})") == 6);
  CHECK(column(R"({"a":")" + a) == value + 1);  // without an end
  CHECK(column(R"({"a":")" + a + R"(","b":")" + a + R"("]})") == 2 * value + 3);
  CHECK(column(R"({"a":")" + a + "\n\"}") > 0);
  CHECK(column('"' + a + "\"\"" + a + '"') == 2 * a.size() + 4);  // the second one's end
}

}  // namespace
}  // namespace plimsoll
