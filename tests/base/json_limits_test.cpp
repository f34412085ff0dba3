// Bounds of JSON texts and of files that hold them.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "base/csv.h"
#include "base/error.h"
#include "base/json.h"
#include "batch/scratch.h"

using namespace plimsoll;
using Catch::Contains;

TEST_CASE("values are nested as deep, and have as many keys, as is allowed") {
  const JsonLimits limits{.max_depth = 3, .max_keys = 2};
  CHECK(parse_json<Json>("[[[1]]]", limits) == Json::parse("[[[1]]]"));
  CHECK(parse_json<Json>(R"({"a":{"b":[1]}})", limits)["a"]["b"][0] == 1);
  CHECK_THROWS_WITH(parse_json<Json>("[[[[1]]]]", limits), "nested deeper than 3 levels");
  CHECK(parse_json<Json>(R"([{"a":1,"b":2},{"a":1,"b":2}])", limits).size() == 2);
  CHECK_THROWS_WITH(parse_json<Json>(R"({"a":1,"b":2,"c":3})", limits),
                    "an object has too many keys");
  CHECK_THROWS_WITH(parse_json<Json>(R"({"a":1,"a":2})", limits), "duplicate key \"a\"");
}

TEST_CASE("numbers keep their texts where they are asked to") {
  const JsonLimits all{.number_texts = true};
  const auto exact = [](const std::string& text, const JsonLimits& limits) {
    return exact_text_of(parse_json<OrderedJson>(text, limits));
  };
  CHECK(exact(R"([1.10,{"a":2.50e3,"b":[-0.0]}])", all) == R"([1.10,{"a":2.50e3,"b":[-0.0]}])");
  CHECK(exact("[1.10]", {}) == "[1.1]");
  CHECK(rounded(parse_json<OrderedJson>("[1.10,1e-999,7]", all)).dump() == "[1.1,0.0,7]");
}

TEST_CASE("numbers are exact below named keys of the outermost objects, and beside them not") {
  constexpr std::string_view kNames[] = {"schema"};
  const auto exact = [&](const std::string& text) {
    return exact_text_of(parse_json<OrderedJson>(text, {.exact_fields = kNames}));
  };
  CHECK(exact(R"({"a":1.10,"schema":{"least":2.50,"of":[3.70]},"b":4.10})") ==
        R"({"a":1.1,"schema":{"least":2.50,"of":[3.70]},"b":4.1})");
  CHECK(exact(R"({"format":{"schema":{"x":1.10},"y":2.20},"z":3.30})") ==
        R"({"format":{"schema":{"x":1.10},"y":2.2},"z":3.3})");
  CHECK(exact(R"({"a":{"b":{"schema":{"x":1.10}}}})") == R"({"a":{"b":{"schema":{"x":1.1}}}})");
  CHECK(exact(R"({"schema":{"a":{"other":1.10},"b":2.20}})") ==
        R"({"schema":{"a":{"other":1.10},"b":2.20}})");
}

TEST_CASE("a place is that of the letter that is wrong") {
  const auto place = [](const std::string& text) {
    try {
      parse_json<Json>(text);
    } catch (const JsonError& error) {
      return std::pair(error.line, error.column);
    }
    return std::pair(size_t{0}, size_t{0});
  };
  CHECK(place("{\n  \"a\": x}") == std::pair(size_t{2}, size_t{8}));
  CHECK(place("x") == std::pair(size_t{1}, size_t{1}));
  CHECK(place("[1,\n2\n,,3]") == std::pair(size_t{3}, size_t{2}));
}

TEST_CASE("a file is read whole, or not at all") {
  const test::Scratch scratch;
  const std::string path = scratch.write("a.json", "{\"a\": 1}");
  CHECK(read_text_file(path, 8) == "{\"a\": 1}");
  CHECK_THROWS_WITH(read_text_file(path, 7), Contains("a.json: 8 bytes, more than the 7 allowed"));
  CHECK(read_json_file(path)["a"] == 1);
  CHECK_THROWS_WITH(read_text_file(scratch.path("none")),
                    Contains("none: no such file") || Contains("none: No such file"));
  CHECK_THROWS_WITH(read_text_file(scratch.path("")), Contains("not a regular file"));
  scratch.write("lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  CHECK_THROWS_WITH(read_text_file(scratch.path("lfs")), Contains("`git lfs pull`"));
  scratch.write("bad", "{\n\"a\" 1}");
  CHECK_THROWS_WITH(read_json_file(scratch.path("bad")), Contains("bad, line 2, column 5: "));
}

TEST_CASE("fields of a table are parted by commas outside of quotes") {
  using Fields = std::vector<std::string>;
  CHECK(csv_fields("a,b,,c") == Fields{"a", "b", "", "c"});
  CHECK(csv_fields("a,\"b, c\",d,") == Fields{"a", "b, c", "d", ""});
  CHECK(csv_fields("") == Fields{""});
}
