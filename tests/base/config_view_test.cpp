// Configs as they are looked up: types and bounds of values, the order of rules.
#include "base/config_view.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/config_json.h"
#include "base/error.h"
#include "base/json.h"
#include "base/key_order.h"

using namespace plimsoll;
using Catch::Contains;

namespace {

using Numbers = std::vector<int64_t>;

}  // namespace

TEST_CASE("whole numbers are taken in any form, up to their bounds and no further") {
  const Json config = parse_json(
      R"({"n": 7, "float": 4096.0, "part": 0.5, "least": -3, "large": 9223372036854775807,
          "larger": 9223372036854775808, "exact": 8999999999999999.0, "far": 1e16, "null": null})");
  const ConfigView view(config, "config.json");
  const Bounds any{INT64_MIN, INT64_MAX};
  CHECK(view.integer({"n"}, 1, {7, 7}) == 7);
  CHECK(view.integer({"float"}, 1) == 4096);
  CHECK(view.integer({"large"}, 1, any) == INT64_MAX);
  CHECK(view.integer({"exact"}, 1, any) == 8'999'999'999'999'999);
  CHECK(view.integer({"null"}, 5) == 5);
  CHECK(view.integer({"null", "n", "float"}, 5) == 7);
  CHECK(view.required({"missing", "n"}) == 7);
  CHECK(view.integer({"least"}, 1, {-3, 0}) == -3);
  struct Row {
    const char* key;
    Bounds bounds;
    const char* said;
  };
  for (const Row& row :
       {Row{"n", {8, 9}, R"(config.json: "n" is 7, expected an integer from 8 to 9)"},
        {"n", {0, 6}, R"("n" is 7, expected an integer from 0 to 6)"},
        {"least", {}, R"("least" is -3, expected an integer from 0 to )"},
        {"part", any, R"("part" is 0.5, expected an integer)"},
        {"larger", any, R"(expected at most 9223372036854775807)"},
        {"far", any, "expected an integer"}}) {
    INFO(row.key);
    CHECK_THROWS_WITH(view.integer({row.key}, 1, row.bounds), Contains(row.said));
  }
  CHECK_THROWS_WITH(view.required({"missing", "other"}),
                    Contains(R"("missing" is missing, expected an integer from 1 to )"));
}

TEST_CASE("flags, texts and numbers are what they say, and nothing else") {
  const Json config = parse_json(
      R"({"yes": true, "one": 1, "zero": 0, "word": "b", "half": 0.5, "list": ["a", "b"], "o": {}})");
  const ConfigView view(config, "c");
  CHECK(view.flag({"yes"}, false));
  CHECK(view.flag({"one"}, false));
  CHECK_FALSE(view.flag({"zero"}, true));
  CHECK(view.flag({"missing"}, true));
  CHECK_THROWS_WITH(view.flag({"half"}, true), Contains("expected true or false"));
  CHECK(view.number({"half"}, 1) == 0.5);
  CHECK(view.number({"one"}, 2) == 1);
  CHECK_THROWS_WITH(view.number({"word"}, 1), Contains(R"("word" is "b", expected a number)"));
  CHECK(view.text({"word"}, "x") == "b");
  CHECK(view.text({"missing"}, "x") == "x");
  CHECK_THROWS_WITH(view.text({"one"}, "x"), Contains("expected a string"));
  CHECK(view.choice("word", {"a", "b"}) == "b");
  CHECK(view.choice("missing", {"a", "b"}) == "a");
  CHECK_THROWS_WITH(view.choice("word", {"a", "c"}), Contains("expected one of a, c"));
  CHECK(view.texts({"list"}) == std::vector<std::string>{"a", "b"});
  CHECK(view.texts({"missing"}).empty());
  CHECK_THROWS_WITH(view.texts({"word"}), Contains("expected a list of strings"));
  CHECK(view.has("zero"));
  CHECK_FALSE(view.has("missing"));
  CHECK(view.is_text("word"));
  CHECK_FALSE(view.is_text("one"));
}

TEST_CASE("lists and pairs of numbers, and objects within") {
  const Json config = parse_json(
      R"({"list": [1, true, -2], "one": 3, "pairs": [[0, 1], [2, 3]], "bad": [[1, 2, 3]],
          "less": [[-1, 0]], "text": "x", "inner": {"n": 4}, "null": null})");
  const ConfigView view(config, "c");
  CHECK(view.integers({"list"}) == Numbers{1, 1, -2});
  CHECK(view.integers({"one"}) == Numbers{3});
  CHECK(view.integers({"missing"}).empty());
  CHECK(view.pairs({"pairs"}) == std::vector<Numbers>{{0, 1}, {2, 3}});
  CHECK_THROWS_WITH(view.pairs({"bad"}), Contains("expected a pair of integers"));
  CHECK_THROWS_WITH(view.pairs({"less"}), Contains("expected an integer from 0 to "));
  CHECK_THROWS_WITH(view.pairs({"one"}), Contains("expected a list of pairs"));
  CHECK(view.has_child({"text", "inner"}));
  CHECK_FALSE(view.has_child({"text", "null"}));
  CHECK(view.child({"text", "inner"}).integer({"n"}, 1) == 4);
  CHECK(view.child({"text", "inner"}).path() == "c: inner");
  CHECK(view.child({"missing"}).integer({"n"}, 1) == 1);
  CHECK_THROWS_WITH(ConfigView(config["text"], "c"),
                    Contains(R"(expected a JSON object, found "x")"));
  const Json longest = std::string(58, 'a'),
             longer = std::string(59, 'a');  // 60 and 61 with quotes
  CHECK_THROWS_WITH(ConfigView(longest, "c"), Catch::EndsWith("a\""));
  CHECK_THROWS_WITH(ConfigView(longer, "c"), Catch::EndsWith("a..."));
}

TEST_CASE("rules of which the first that fits counts keep the order of their text") {
  const std::string text =
      R"({"a": 1, "quantization_config": {"dynamic": {"z": {"y": [1, {"x": 2}]},
      "b": 1, "m": {}}, "other": {"z": 1, "b": 2}, "layer_quant_config": {"2": 0, "10": 0, "1": 0}},
      "list": [0, {"extra_config": {"q": 1, "c": 2}}, [1, {"extra_config": {"r": 1, "d": 2}}]],
      "dynamic": 5})";
  Json config = parse_json(text);
  keep_key_order(text, config);
  using Keys = std::vector<std::string>;
  const Json& rules = config["quantization_config"];
  CHECK(keys_in_order(rules, "dynamic") == Keys{"z", "b", "m"});
  CHECK(keys_in_order(rules, "layer_quant_config") == Keys{"2", "10", "1"});
  CHECK(keys_in_order(rules, "other") == Keys{"b", "z"});  // by their names
  CHECK(keys_in_order(config["list"][1], "extra_config") == Keys{"q", "c"});
  CHECK(keys_in_order(config["list"][2][1], "extra_config") == Keys{"r", "d"});
  CHECK(keys_in_order(config, "dynamic").empty());
  CHECK(keys_in_order(config, "missing").empty());
  // An order that does not fit the rules any more does not count.
  Json changed = rules;
  changed["dynamic"].erase("z");
  CHECK(keys_in_order(changed, "dynamic") == Keys{"b", "m"});
}

TEST_CASE("Python's numbers become texts outside of texts alone") {
  CHECK(without_python_numbers(R"({"a": NaN, "b": [Infinity, -Infinity]})") ==
        R"({"a": "NaN", "b": ["Infinity", "-Infinity"]})");
  CHECK(without_python_numbers(R"("NaN \" NaN \\" NaN)") == R"("NaN \" NaN \\" "NaN")");
  CHECK(without_python_numbers(R"(-1 Inf "")") == R"(-1 Inf "")");
}
