// What a request says of the form of its answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "grammar/grammar.h"

namespace plimsoll::grammar {

struct Constraint {
  enum class Kind : uint8_t { schema, json_object, regex, choice, ebnf };
  Kind kind = Kind::schema;
  std::string text = {};                  // schema as JSON, regular expression, or EBNF of xgrammar
  std::vector<std::string> choices = {};  // of Kind::choice
  SchemaOptions options = {};             // of schemas and JSON objects
  std::string field = {};                 // of the request, for messages: "response_format"
  // Where parts of a schema that was put together stand in the request, for messages: JSON pointer
  // of the part, and "tools[0].function.parameters".
  std::map<std::string, std::string> places = {};

  /// True where answers are JSON, whatever else they are.
  [[nodiscard]] bool is_json() const { return kind == Kind::schema || kind == Kind::json_object; }
  /// The grammar as xgrammar's EBNF. Throws Error(input_unusable), see grammar.h.
  [[nodiscard]] std::string ebnf() const;
  /// Equal for constraints with equal grammars, whatever field they came from.
  [[nodiscard]] std::string key() const;
};

}  // namespace plimsoll::grammar
