// What cannot be enforced, and hostile schemas: refused by name, in bounded time and memory.
#include <catch2/catch.hpp>
#include <string>

#include "base/error.h"
#include "grammar/grammar.h"
#include "processor_time.h"

using namespace plimsoll;
using Catch::Contains;

namespace {

void check_refused(const std::string& schema, const std::string& why) {
  INFO(schema.substr(0, 200));
  const testing::ProcessorTime time;
  CHECK_THROWS_WITH(grammar::ebnf_of_schema(schema, {}), Contains(why));
  CHECK(time.seconds() < 60);  // a few seconds
}

std::string nested(size_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += open;
  text += "true";
  for (size_t i = 0; i < depth; ++i) text += close;
  return text;
}

// A schema that leads to an integer by 2^`levels` ways.
std::string doubled(const std::string& first, int levels) {
  std::string text = "{" + first + R"("$ref": "#/$defs/d0", "$defs": {)";
  for (int i = 0; i < levels; ++i) {
    const std::string next = R"({"$ref": "#/$defs/d)" + std::to_string(i + 1) + "\"}";
    text += "\"d" + std::to_string(i) + R"(": {"allOf": [)" + next + "," + next + "]},";
  }
  return text + "\"d" + std::to_string(levels) + R"(": {"type": "integer"}}})";
}

}  // namespace

TEST_CASE("what a grammar cannot enforce is refused with keyword and place") {
  check_refused(R"({"properties": {"a/b": {"items": {}, "uniqueItems": true}}})",
                "uniqueItems at \"/properties/a~1b\"");
  check_refused(R"({"properties": {"a": {"pattern": "(a)\\1"}}})", "pattern at \"/properties/a\"");
  check_refused(R"({"pattern": "(?<=a)b"})", "look-behind");
  check_refused(R"({"pattern": "a\\b"})", "word boundary");
  check_refused(R"({"format": "regex"})", "format at \"\"");
  check_refused(R"({"items": {"$ref": "https://a.example/other"}})", "$ref at \"/items\"");
  check_refused(R"({"$ref": "#/$defs/none"})", "$ref at \"\"");
  check_refused(R"({"anyOf": [{"properties": {"a": {}}}, {}], "unevaluatedProperties": false})",
                "unevaluatedProperties at \"\"");
}

TEST_CASE("malformed schemas are refused") {
  check_refused("", "line 1");
  check_refused("3", "neither an object");
  check_refused(R"({"type": "strin"})", "type at \"\"");
  check_refused(R"({"properties": {"a": 1}})", "properties at \"\"");
  check_refused(R"({"minLength": -1})", "minLength");
  check_refused(R"({"allOf": {}})", "allOf");
  check_refused(R"({"pattern": "("})", "unfinished group");
  check_refused(R"({"multipleOf": 0})", "multipleOf");
  check_refused(R"({"a": 1, "a": 2})", "duplicate key");
  check_refused(R"({"required": "a"})", "required at \"\": is no list of names");
  check_refused(R"({"uniqueItems": "true"})", "uniqueItems at \"\": is neither");
  check_refused(R"({"format": 3})", "format at \"\": is no string");
}

TEST_CASE("schemas that say nothing in words that are no keywords are refused") {
  check_refused(R"({"propertes": {"a": {}}})", "propertes at \"\": is no keyword");
  check_refused(R"({"propertes": {"a": {}}})", "did you mean properties?");
  check_refused(R"({"name": "p", "description": "d", "schema": {"type": "null"}, "strict": true})",
                "schema at \"\": is no keyword of JSON schemas, and there is none beside it; give");
  check_refused(R"({"items": {"$id": "tool:0", "typ": "string"}})",
                "typ at \"/items\": is no keyword");
  for (const char* schema :
       {"{}", R"({"title": "t", "x-order": 1})", R"({"type": "null", "schema": 1})",
        R"({"properties": {"schema": {"typ": "red"}}})", R"({"Report": {"type": "object"}})"}) {
    INFO(schema);
    CHECK_NOTHROW(grammar::ebnf_of_schema(schema, {}));
  }
}

TEST_CASE("a pattern of whitespace has whitespace of JSON alone") {
  grammar::SchemaOptions options;
  options.whitespace_pattern = "[ x]?";
  CHECK_THROWS_WITH(grammar::ebnf_of_schema("{}", options),
                    Contains("whitespace_pattern: admits other characters"));
}

TEST_CASE("schemas that nothing fits are refused") {
  check_refused("false", "no value is valid");
  check_refused(R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "no value is valid");
  check_refused(R"({"items": {"enum": ["a"]}, "contains": {"const": "b"}, "type": "array"})",
                "no value is valid");
  check_refused(R"({"items": {"enum": ["a", "b"]}, "uniqueItems": true, "minItems": 3,
                    "type": "array"})",
                "no value is valid");
  check_refused(R"({"type": "object", "required": ["b"], "properties": {"b": {"$ref": "#"}}})",
                "no value is valid");
}

TEST_CASE("hostile schemas are refused in bounded time") {
  check_refused(R"({"$ref": "#"})", "leads to itself");
  check_refused(R"({"allOf": [{"$ref": "#"}]})", "leads to itself");
  check_refused(R"({"not": {"$ref": "#"}})", "leads to itself");
  check_refused(nested(100'000, R"({"items":)", "}"), "nested deeper");
  check_refused(R"({"pattern": "^(a|b)*a(a|b){40}$"})", "states");
  check_refused(R"j({"pattern": "(((((a{1000}){1000}){1000}){1000}){1000}"})j", "pattern");
  check_refused("{\"pattern\": \"" + std::string(100'000, '(') + "\"}", "200 groups");
  check_refused(R"j({"pattern": "((((){100000}){100000}){100000})"})j", "more work");
  std::string combined = R"({"allOf": [)";
  for (int i = 0; i < 40; ++i) {
    combined += (i ? "," : "") + std::string(R"({"anyOf": [{"required": ["a)") + std::to_string(i) +
                R"("]}, {"required": ["b)" + std::to_string(i) + R"("]}]})";
  }
  check_refused(combined + "]}", "alternatives");
  check_refused(R"({"type": "string", "minLength": 1000000000000})", "length");
  check_refused(R"({"type": "array", "minItems": 1000000000000})", "count");
  check_refused(R"({"type": "number", "multipleOf": 12345.678})", "residues");
  check_refused(R"({"type": "number", "minimum": 1e-99999})", "minimum at \"\": a number has");
  check_refused(doubled(R"("unevaluatedProperties": false, )", 20), "more work");
}

TEST_CASE("answers by schemas whose references meet again are validated soon") {
  const grammar::JsonSchema schema(doubled("", 60));
  const testing::ProcessorTime time;
  CHECK(schema.refuse("5").empty());
  CHECK(schema.refuse("\"a\"") == "type at \"\": is no \"integer\"");
  CHECK(time.seconds() < 2);  // a few milliseconds
}

TEST_CASE("what is not strict leaves to the validator what cannot be enforced") {
  const std::pair<const char*, std::string> rows[] = {
      {R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true})", R"(["a","a"])"},
      // pydantic's HttpUrl has such bounds
      {R"({"type": "string", "format": "uri", "minLength": 1, "maxLength": 2083})",
       "\"http://a/" + std::string(2083, 'b') + "\""},
      {R"({"type": "number", "multipleOf": 12345.678})", "1.5"},
      {R"({"type": "number", "not": {"multipleOf": 12345.678}})", "12345.678"},
  };
  for (const auto& [schema, invalid] : rows) {
    INFO(schema);
    check_refused(schema, "");
    grammar::SchemaOptions options;
    options.strict = false;
    CHECK_NOTHROW(grammar::ebnf_of_schema(schema, options));
    CHECK_FALSE(grammar::JsonSchema(schema).refuse(invalid).empty());
  }
}
