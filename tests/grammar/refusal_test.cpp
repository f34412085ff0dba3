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
}

TEST_CASE("schemas that nothing fits are refused") {
  check_refused("false", "no value is valid");
  check_refused(R"({"allOf": [{"type": "string"}, {"type": "null"}]})", "no value is valid");
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
