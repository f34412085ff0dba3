// Schemas, keyword by keyword, with answers that their grammars take and answers that they do not.
// The validator agrees.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "grammar/grammar.h"
#include "reference/recognizer.h"

using namespace plimsoll;

namespace {

struct Row {
  const char* schema;
  std::vector<const char*> taken;
  std::vector<const char*> refused;
};

const std::vector<Row> kRows = {
    {R"({"type": "integer"})", {"1", "-7", "1.0"}, {"1.5", "\"1\"", "01", "null"}},
    {R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"})",
     {"1"},
     {"1.0"}},
    {R"({"type": "number"})",
     {"-1.5E+07", "999999999.5e299", "1e-07", "0", "12345678901.5"},
     {"1e400", "-3E99999", "9999999999e299"}},
    {R"({"type": ["null", "boolean"]})", {"null", "true", "false"}, {"0", "\"\"", "[]"}},
    {R"({"enum": [1, "a", null, {"b": [2]}]})",
     {"1", "1.0", "\"a\"", "null", R"({"b":[2]})"},
     {"2", "\"b\"", R"({"b":[3]})", R"({"b":[2,2]})", R"({})"}},
    {R"({"const": "\u00e9\n"})", {"\"\u00e9\\n\"", "\"\\u00e9\\n\""}, {"\"e\\n\""}},
    {R"({"type": "number", "minimum": -1.5, "exclusiveMaximum": 10})",
     {"-1.5", "-1.50", "0", "-0", "9.999", "1e-07"},
     {"-1.51", "10", "10.0", "100", "1e+20"}},
    {R"({"type": "integer", "multipleOf": 3, "minimum": 4})", {"6", "12"}, {"3", "7", "-6"}},
    {R"({"type": "number", "multipleOf": 0.25})", {"0.5", "1", "-2.75"}, {"0.3", "0.125"}},
    {R"({"type": "string", "minLength": 2, "maxLength": 3})",
     {"\"ab\"", "\"\u00e9\u00e9\u00e9\"", "\"\\n\\n\"", "\"\\ud83d\\ude00a\""},
     {"\"a\"", "\"abcd\"", "\"\\ud83d\\ude00\""}},
    {R"({"type": "string", "pattern": "^(?!no)[a-z]+$", "maxLength": 4})",
     {"\"yes\"", "\"on\""},
     {"\"nope\"", "\"YES\"", "\"abcde\"", "\"\""}},
    {R"({"type": "string", "pattern": "b"})", {"\"abc\"", "\"\\u00e9b\""}, {"\"ac\""}},
    {R"({"type": "string", "format": "date-time"})",
     {"\"2024-02-29T23:59:59Z\"", "\"2023-01-31T00:00:00.5+02:00\""},
     {"\"2023-02-29T00:00:00Z\"", "\"2023-01-31\"", "\"x\""}},
    {R"({"type": "string", "format": "ipv6"})",
     {"\"::1\"", "\"2001:db8::8:800:200c:417a\""},
     {"\"1::2::3\"", "\"12345::\""}},
    {R"({"type": "string", "format": "uri"})",
     {"\"https://a.example/b?c#d\""},
     {"\"a b\"", "\"//a\""}},
    {R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}, "required": ["b"]})",
     {R"({"b":1})", R"({"a":1,"b":[]})", R"({"b":1,"c":2})", R"({ "a" : 1 , "b" : 2 })"},
     {R"({})", R"({"a":1})", R"({"a":"x","b":1})", R"({"b":1,"a":"x"})"}},
    {R"({"type": "object", "properties": {"a": {}}, "required": ["y", "x"], "maxProperties": 3})",
     {R"({"x":1,"y":2})", R"({"a":0,"y":1,"x":2})", R"({"z":1,"y":2,"x":3})"},
     {R"({"y":1})", R"({"a":1,"x":1})", R"({"a":1,"y":1,"x":2,"z":3})"}},
    {R"({"properties": {"a": {}}, "additionalProperties": false})",
     {R"({})", R"({"a":1})", "3"},
     {R"({"b":1})", R"({"a":1,"ab":1})"}},
    {R"({"type": "object", "patternProperties": {"^n": {"type": "integer"}, "x$": {"minimum": 5}},
         "additionalProperties": {"type": "string"}})",
     {R"({"n":1,"nx":7,"z":"s"})"},
     {R"({"nx":3})", R"({"z":1})", R"({"n":"s"})"}},
    {R"({"type": "object", "propertyNames": {"maxLength": 2}})", {R"({"ab":1})"}, {R"({"abc":1})"}},
    {R"({"type": "object", "minProperties": 2, "maxProperties": 3, "properties": {"a": {}, "b": {}}})",
     {R"({"a":1,"b":2})", R"({"x":1,"y":2})", R"({"a":1,"x":1,"y":2})"},
     {R"({"a":1})", R"({"a":1,"b":1,"x":1,"y":2})", "{}"}},
    {R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2})",
     {"[1]", "[1,2]", "[ 1 , 2 ]"},
     {"[]", "[1,2,3]", "[\"a\"]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})",
     {"[]", "[1]", "[1,\"a\"]"},
     {"[\"a\"]", "[1,2]", "[1,\"a\",3]"}},
    {R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2})",
     {"[1,2]", "[1,2,3]"},
     {"[1]", "[]", "[1,3]"}},
    {R"({"type": "array", "contains": {"type": "string"}, "maxContains": 2})",
     {"[\"a\"]", "[1,\"a\",2,\"b\"]"},
     {"[]", "[1]", "[\"a\",\"b\",\"c\"]"}},
    {R"({"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true})",
     {"[]", "[\"b\",\"a\"]"},
     {"[\"a\",\"a\"]"}},
    {R"({"allOf": [{"type": "array", "items": {"enum": ["a", "b"]}}, {"uniqueItems": true}]})",
     {"[\"b\",\"a\"]"},
     {"[\"a\",\"a\"]"}},
    {R"({"type": "number", "exclusiveMinimum": 0})",
     {"1e-07", "0.5", "12", "1e+20", "1e-307", "9.9e+307"},
     {"0", "-1", "-0.5", "-1e-07", "-1e+20", "1e-400", "1e+308000"}},
    {R"({"type": "number", "maximum": 0})",
     {"0", "-3", "-1e-07", "-1e+20"},
     {"0.1", "3", "1e-07", "1e+20"}},
    {R"({"type": "number", "minimum": 12.5})",
     {"12.5", "12.50", "12.51", "13", "100", "20.1"},
     {"12.4", "12.49", "12", "9", "9.9", "2.6", "-13"}},
    {R"({"type": "number", "exclusiveMinimum": -2.5, "maximum": -0.25})",
     {"-2.4", "-0.25", "-1"},
     {"-2.5", "-2.6", "-0.2", "0", "-1e-07"}},
    {R"({"type": "integer", "multipleOf": 10})", {"0", "20", "-30"}, {"5", "15", "-1", "10.5"}},
    {R"({"type": "integer", "minimum": 10000000000, "not": {"multipleOf": 2}})",
     {"10000000001", "12345678901234567890123"},
     {"10000000000", "12345678901234567890122", "99999999998.0"}},
    {R"({"type": "integer", "multipleOf": 10, "not": {"multipleOf": 20}})",
     {"10", "123456789012345678901234567890"},
     {"20", "123456789012345678901234567880"}},
    {R"({"type": "number", "multipleOf": 0.1})", {"0.3", "1234567890123456.7"}, {"0.35"}},
    {R"({"const": 12345678901234567890123})",
     {"12345678901234567890123"},
     {"12345678901234567890124", "12345678901234567890123.5"}},
    {R"({"enum": [1, 340282366920938463463374607431768211456]})",
     {"1", "340282366920938463463374607431768211456"},
     {"340282366920938463463374607431768211455", "3.402823669209385e38"}},
    {R"({"type": "integer", "minimum": -18446744073709551617,
         "maximum": 115792089237316195423570985008687907853269984665640564039457584007913129639935})",
     {"115792089237316195423570985008687907853269984665640564039457584007913129639935",
      "-18446744073709551617", "3.0"},
     {"115792089237316195423570985008687907853269984665640564039457584007913129639936",
      "-18446744073709551618"}},
    {R"({"type": "number", "multipleOf": 0.01})",
     {"0.05", "3", "2.50", "-0.1"},
     {"0.005", "1.001"}},
    {R"({"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "minimum": 3,
         "exclusiveMinimum": true, "maximum": 5, "exclusiveMaximum": false})",
     {"4", "5", "3.1"},
     {"3", "5.1"}},
    {R"({"type": "string", "pattern": "^a+$", "minLength": 2, "maxLength": 3})",
     {"\"aa\"", "\"aaa\""},
     {"\"a\"", "\"aaaa\"", "\"ab\""}},
    {R"({"type": "array", "contains": {"type": "string"}, "minContains": 2})",
     {"[\"a\",\"b\"]", "[1,\"a\",\"b\"]", "[\"a\",\"b\",\"c\"]"},
     {"[]", "[\"a\"]", "[1,\"a\"]"}},
    {R"({"type": "array", "contains": {"type": "string"}, "maxContains": 1, "minItems": 2,
         "maxItems": 3})",
     {"[\"a\",1]", "[1,\"a\",2]", "[1,2,\"a\"]"},
     {"[\"a\"]", "[\"a\",\"b\"]", "[1,2]", "[1,\"a\",2,3]"}},
    {R"({"type": "array", "contains": {"type": "string"}, "minContains": 0, "maxContains": 1})",
     {"[]", "[1]", "[\"a\"]"},
     {"[\"a\",\"b\"]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}], "contains": {"type": "string"}})",
     {"[1,\"a\"]", "[1,2,\"a\"]"},
     {"[\"a\"]", "[1]", "[]"}},
    {R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 1,
         "maxItems": 2})",
     {"[\"a\"]", "[\"c\",\"a\"]"},
     {"[]", "[\"a\",\"b\",\"c\"]", "[\"b\",\"b\"]"}},
    {R"({"type": "array", "items": {"enum": [1, 2.5, -30]}, "uniqueItems": true})",
     {"[]", "[2.5,1]", "[-30,1.0,2.50]"},
     {"[1,1]", "[1,1.0]", "[2.5,-30,2.50]", "[2]"}},
    {R"({"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 3},
         "uniqueItems": true})",
     {"[3,0,1]", "[0]"},
     {"[0,-0]", "[3,0,3]", "[4]"}},
    {R"({"type": "array", "items": {"enum": [null, true, false]}, "uniqueItems": true})",
     {"[]", "[true,null,false]"},
     {"[true,true]", "[null,false,null]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}], "maxItems": 1})",
     {"[]", "[1]"},
     {"[1,null]", "[null]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}, false]})",
     {"[]", "[1]"},
     {"[1,2]", "[1,2,3]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"},
         "minItems": 2, "maxItems": 3})",
     {"[1,\"a\"]", "[1,\"a\",\"b\"]"},
     {"[1]", "[1,2]", "[1,\"a\",\"b\",\"c\"]"}},
    {R"({"type": "array", "prefixItems": [{"type": "integer"}], "unevaluatedItems": false})",
     {"[]", "[1]"},
     {"[1,2]", "[\"a\"]"}},
    {R"({"allOf": [{"type": "object", "properties": {"a": {"type": "number"}}},
                   {"properties": {"a": {"minimum": 3}}, "required": ["a"]}]})",
     {R"({"a":3})"},
     {R"({"a":2})", "{}"}},
    {R"({"oneOf": [{"type": "number", "multipleOf": 3}, {"type": "number", "multipleOf": 5}]})",
     {"3", "5", "10"},
     {"15", "1"}},
    {R"({"type": "object", "properties": {"a": {}, "b": {}},
         "oneOf": [{"required": ["a"]}, {"required": ["b"]}]})",
     {R"({"a":1})", R"({"b":1})"},
     {R"({"a":1,"b":1})", "{}"}},
    {R"({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}]})",
     {"\"a\"", "4"},
     {"\"ab\"", "1.5"}},
    {R"({"type": "string", "not": {"enum": ["a", "b"]}})", {"\"c\"", "\"ab\""}, {"\"a\"", "\"b\""}},
    {R"({"type": "object", "not": {"required": ["a"]}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
    {R"({"type": "array", "items": {"enum": [1, 2]}, "not": {"items": {"const": 1}}})",
     {"[2]", "[1,2]", "[2,1,1]"},
     {"[]", "[1]", "[1,1]"}},
    {R"({"type": "array", "items": {"enum": [1, 2]},
         "not": {"prefixItems": [{"const": 1}], "items": false, "minItems": 1}})",
     {"[]", "[2]", "[1,1]"},
     {"[1]"}},
    {R"({"type": "object", "properties": {"k": {"enum": ["x", "y"]}}, "required": ["k"],
         "if": {"properties": {"k": {"const": "x"}}}, "then": {"required": ["v"]}})",
     {R"({"k":"y"})", R"({"k":"x","v":1})"},
     {R"({"k":"x"})"}},
    {R"({"$schema": "http://json-schema.org/draft-06/schema#", "enum": [1, 2, 3],
         "if": {"const": 2}, "then": false})",
     {"1", "2", "3"},
     {"4"}},
    {R"({"$schema": "http://json-schema.org/draft-07/schema#", "enum": [1, 2, 3],
         "if": {"const": 2}, "then": false})",
     {"1", "3"},
     {"2", "4"}},
    {R"({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}})",
     {"{}", R"({"b":1})", R"({"a":1,"b":1})"},
     {R"({"a":1})"}},
    {R"({"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": false})",
     {R"({"a":1})"},
     {R"({"b":1})"}},
    {R"({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "required": ["v"], "properties":
         {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/t"}}, "additionalProperties": false}}})",
     {R"({"v":1})", R"({"v":1,"next":{"v":2}})"},
     {R"({"v":1,"next":{}})", R"({"next":{"v":2}})"}},
    {R"({"$id": "https://a.example/s", "$ref": "t", "$defs": {"t": {"$id": "/t", "$anchor": "x",
         "type": "array", "items": {"$ref": "#x"}}}})",
     {"[]", "[[],[[]]]"},
     {"[1]", "{}"}},
};

}  // namespace

TEST_CASE("grammars of schemas take the valid answers alone, and the validator agrees") {
  for (const Row& row : kRows) {
    INFO(row.schema);
    const grammar::JsonSchema validator(row.schema);
    const testing::Recognizer recognizer(validator.ebnf({}));
    for (const char* text : row.taken) {
      INFO(text);
      CHECK(recognizer.accepts(text));
      CHECK(validator.refuse(text).empty());
    }
    for (const char* text : row.refused) {
      INFO(text);
      CHECK_FALSE(recognizer.accepts(text));
      CHECK_FALSE(validator.refuse(text).empty());
    }
  }
}

TEST_CASE("whitespace and keys that a schema does not name are as asked for") {
  const char* schema = R"({"type": "object", "properties": {"a": {"type": "array"}}})";
  using grammar::SchemaOptions;
  const auto takes = [&](const SchemaOptions& options, const char* text) {
    return testing::Recognizer(grammar::ebnf_of_schema(schema, options)).accepts(text);
  };
  CHECK(takes({}, "{\n\t\"a\": [1 ,2] }"));
  SchemaOptions compact;
  compact.any_whitespace = false;
  CHECK(takes(compact, R"({"a": [1, 2], "b": 3})"));
  CHECK_FALSE(takes(compact, R"({"a": [1,2]})"));
  SchemaOptions pattern;
  pattern.whitespace_pattern = "[ ]?";
  CHECK(takes(pattern, R"({ "a":[1 , 2]})"));
  CHECK_FALSE(takes(pattern, R"({  "a":[1]})"));
  SchemaOptions closed;
  closed.additional_properties = false;
  CHECK(takes({}, R"({"b":1})"));
  CHECK_FALSE(takes(closed, R"({"b":1})"));
}

TEST_CASE("beside large bounds no fraction follows 16 digits, which doubles would round") {
  const testing::Recognizer recognizer(grammar::ebnf_of_schema(
      R"({"minimum": 1.5, "maximum": 9223372036854775807, "type": "number"})", {}));
  CHECK(recognizer.accepts("9223372036854775807"));
  CHECK(recognizer.accepts("123456789012345.25"));
  CHECK_FALSE(recognizer.accepts("9223372036854775806.0"));
  CHECK_FALSE(recognizer.accepts("9223372036854775806.5"));
  const testing::Recognizer constant(grammar::ebnf_of_schema(R"({"const": 9007199254740993})", {}));
  CHECK(constant.accepts("9007199254740993"));
  CHECK_FALSE(constant.accepts("9007199254740993.0"));
}

TEST_CASE("the grammar of JSON objects takes every object and nothing else") {
  const testing::Recognizer recognizer(grammar::ebnf_of_json_object({}));
  for (const char* text : {"{}", R"({"a":[1,{"b":null}],"\u00e9":"x\\"})", "{ \"a\" : -1.5e3 }"}) {
    CHECK(recognizer.accepts(text));
  }
  for (const char* text : {"[]", "1", "{\"a\"}", "{\"a\":1,}", "{\"a\":01}"}) {
    CHECK_FALSE(recognizer.accepts(text));
  }
}

TEST_CASE("the validator takes keys in any order and says what is wrong, and where") {
  const grammar::JsonSchema validator(
      R"({"properties": {"a": {"items": {"type": "integer"}}, "b": {}}, "required": ["b"]})");
  CHECK(validator.refuse(R"({"b":1,"a":[2]})").empty());
  CHECK(validator.refuse(R"({"a":[1,"x"],"b":1})") == "type at \"/a/1\": is no \"integer\"");
  CHECK(validator.refuse(R"({"a":[]})") == "required at \"\": lacks \"b\"");
  CHECK(validator.refuse("{\"b\":1,\"b\":2}").find("duplicate key") != std::string::npos);
  CHECK_FALSE(validator.refuse("{").empty());
}

TEST_CASE("what contains has met is looked at from draft 2020-12 on") {
  for (const bool newer : {false, true}) {
    const grammar::JsonSchema validator(fmt::format(
        R"({{"$schema": "https://json-schema.org/draft/{}/schema", "type": "array",
             "contains": {{"type": "string"}}, "unevaluatedItems": false}})",
        newer ? "2020-12" : "2019-09"));
    INFO(newer);
    CHECK(validator.refuse(R"(["a"])").empty() == newer);
    CHECK_FALSE(validator.refuse(R"(["a",1])").empty());
  }
}

TEST_CASE("classes in loops stand in the rules of their states") {
  // In a rule for the character a class ends with each one, and a mask tries longer tokens anew.
  const std::string ebnf = grammar::ebnf_of_schema(
      R"({"properties":{"ab":{"type":"number"}},"additionalProperties":{"pattern":"^[^x]*$"}})",
      {});
  CHECK_THAT(ebnf, Catch::Contains("c0 ::= \"") && Catch::Contains("c1 ::= \""));
  CHECK_THAT(ebnf, Catch::Contains("-\\U0010ffff] d1 | c1 d1\n"));
}

TEST_CASE("a property that may be left out is one rule more") {
  // xgrammar's time grows with the square of rules: a thousand such properties took 12 s.
  std::string schema = R"({"additionalProperties":false,"type":"object","properties":{)";
  for (int i = 0; i < 100; ++i) schema += fmt::format("{}\"p{}\":{{}}", i ? "," : "", i);
  const std::string ebnf = grammar::ebnf_of_schema(schema + "}}", {});
  CHECK(std::ranges::count(ebnf, '\n') < 120);
}

TEST_CASE("a run of characters names the rule of their class each time") {
  // xgrammar makes a rule of each choice in parentheses, and its time grows with their square.
  const std::string ebnf = grammar::ebnf_of_schema(R"({"pattern":"^[^x]{2000}$"})", {});
  CHECK(ebnf.size() < 16'000);
  CHECK_THAT(ebnf, Catch::Contains(" c1 c1 c1 c1 "));
}

TEST_CASE("strings of bounded length are taken at each length within the bounds, and at no other") {
  const auto [least, most] = GENERATE(table<size_t, size_t>({{0, 0},
                                                             {1, 32},
                                                             {0, 33},
                                                             {1, 49},
                                                             {0, 255},
                                                             {32, 150},
                                                             {33, 33},
                                                             {100, 400},
                                                             {2000, 2100}}));
  INFO(least << " to " << most);
  const std::string ebnf = grammar::ebnf_of_schema(
      fmt::format(R"({{"type":"string","minLength":{},"maxLength":{}}})", least, most), {});
  // A mask for each state, so states must not grow with the bounds.
  CHECK(std::ranges::count(ebnf, '\n') < 400);
  CHECK_THAT(ebnf, !Catch::Contains("}"));
  const testing::Recognizer recognizer(ebnf);
  const std::string characters[] = {"a", " ", "\u00e4", "\\n", "\\ud83d\\ude00"};
  std::string text = "\"";
  for (size_t length = 0; length <= most + 1; ++length) {
    if (length % 23 == 0 || (length + 1 >= least && length <= least + 1) || length + 1 >= most) {
      INFO(length);
      CHECK(recognizer.accepts(text + "\"") == (length >= least && length <= most));
    }
    text += characters[length % 5];
  }
}

TEST_CASE("a pattern's texts are taken at each length that the bounds beside it allow, no other") {
  struct Pattern {
    const char* text;
    const char* repeated;
    std::function<bool(size_t)> has;  // a text of this length
  };
  const Pattern patterns[] = {
      {"^a+$", "aaaaaaaa", [](size_t length) { return length > 0; }},
      {"^(ab)*$", "abababab", [](size_t length) { return length % 2 == 0; }},
      {"^a{2,5}$", "aaaaaaaa", [](size_t length) { return length >= 2 && length <= 5; }}};
  for (const Pattern& pattern : patterns) {
    for (const size_t least : {0u, 1u, 2u, 3u, 4u}) {
      for (const size_t most : {4u, 5u, 100u}) {
        const std::string bound = most == 100 ? "" : fmt::format(R"(,"maxLength":{})", most);
        const grammar::JsonSchema schema(fmt::format(
            R"({{"type":"string","pattern":"{}","minLength":{}{}}})", pattern.text, least, bound));
        INFO(schema.ebnf({}));
        const testing::Recognizer recognizer(schema.ebnf({}));
        for (size_t length = 0; length <= 8; ++length) {
          INFO(pattern.text << ", " << least << " to " << most << ": " << length);
          const std::string text = '"' + std::string(pattern.repeated, length) + '"';
          const bool taken = pattern.has(length) && length >= least && length <= most;
          CHECK(recognizer.accepts(text) == taken);
          CHECK(schema.refuse(text).empty() == taken);
        }
      }
    }
  }
}
