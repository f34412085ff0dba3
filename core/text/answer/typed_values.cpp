#include "text/answer/typed_values.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/lower_case.h"
#include "base/trim.h"
#include "text/answer/call_bodies.h"
#include "text/answer/json_reader.h"
#include "text/answer/scan.h"

namespace plimsoll::text {
namespace {

void add_type(ValueType& type, const OrderedJson& given) {
  if (given.is_array()) {
    for (const OrderedJson& one : given) {
      if (one.is_string()) add_type(type, one);
    }
  }
  if (!given.is_string()) return;
  const std::string lower = plimsoll::lower_case(given.get<std::string>());
  if (lower == "null") {
    type.nullable = true;
  } else if (type.name.empty()) {
    type.name = lower;
  }
}

bool is_among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> starts) {
  return std::ranges::any_of(starts,
                             [&](std::string_view start) { return name.starts_with(start); });
}

/// A text that JSON reads as a number, and that may be a whole one alone.
std::optional<std::string> json_number(std::string_view text, bool whole) {
  JsonReader reader(text, 0);
  if (reader.peek() != '-' && (reader.peek() < '0' || reader.peek() > '9')) return std::nullopt;
  std::optional<std::string> number = reader.value();
  if (!number || !reader.at_end()) return std::nullopt;
  if (whole && number->find_first_of(".eE") != std::string::npos) return std::nullopt;
  return number;
}

}  // namespace

const OrderedJson* function_schema(const OrderedJson& tools, std::string_view function) {
  if (!tools.is_array()) return nullptr;
  for (const OrderedJson& tool : tools) {
    if (!tool.is_object()) continue;
    const OrderedJson& described =
        tool.contains("function") && tool["function"].is_object() ? tool["function"] : tool;
    const auto name = described.find("name");
    if (name == described.end() || *name != function) continue;
    const auto parameters = described.find("parameters");
    if (parameters != described.end() && parameters->is_object()) return &*parameters;
  }
  return nullptr;
}

const OrderedJson* parameter_schema(const OrderedJson& tools, std::string_view function,
                                    std::string_view parameter) {
  const OrderedJson* schema = function_schema(tools, function);
  if (schema == nullptr) return nullptr;
  const auto properties = schema->find("properties");
  if (properties == schema->end() || !properties->is_object()) return nullptr;
  const auto found = properties->find(parameter);
  return found == properties->end() ? nullptr : &*found;
}

ValueType type_of(const OrderedJson* schema) {
  ValueType type;
  if (schema == nullptr || !schema->is_object()) return type;
  if (schema->contains("type")) add_type(type, (*schema)["type"]);
  for (const char* keyword : {"anyOf", "oneOf"}) {
    if (!schema->contains(keyword) || !(*schema)[keyword].is_array()) continue;
    for (const OrderedJson& option : (*schema)[keyword]) {
      if (option.is_object() && option.contains("type")) add_type(type, option["type"]);
    }
  }
  return type;
}

std::string json_of_value(std::string_view value, const ValueType& type, bool guesses) {
  const std::string_view bare = trimmed(value, kBlanks);
  const std::string lower = plimsoll::lower_case(std::string(bare));
  const bool is_null = lower == "null" || lower == "none";
  if (is_null && type.nullable) return "null";
  if (is_among(type.name, {"string", "str", "text", "varchar", "char", "enum"})) {
    return json_quoted(value);
  }
  if (type.name.empty()) {
    if (!guesses) return json_quoted(value);
    return json_of_literal(value).value_or(json_quoted(value));
  }
  if (is_null) return "null";
  if (starts_with_any(type.name, {"int", "uint", "long", "short", "unsigned"})) {
    return json_number(bare, true).value_or(json_quoted(value));
  }
  if (starts_with_any(type.name, {"num", "float"})) {
    return json_number(bare, false).value_or(json_quoted(value));
  }
  if (is_among(type.name, {"boolean", "bool", "binary"})) {
    return lower == "true" || lower == "false" ? lower : json_quoted(value);
  }
  return json_of_literal(value).value_or(json_quoted(value));
}

}  // namespace plimsoll::text
