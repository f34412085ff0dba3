// What an answer may be: grammars in xgrammar's EBNF, made from JSON schemas, regular expressions
// and lists of choices; and validation of finished answers. README.md lists what is enforced.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll::grammar {

/// How the JSON of an answer is written; names and meaning as in vLLM's `structured_outputs`.
struct SchemaOptions {
  /// Whitespace between tokens; false: compact JSON, as vLLM's `disable_any_whitespace`.
  bool any_whitespace = true;
  /// A regular expression of the whitespace between tokens, in place of the default.
  std::optional<std::string> whitespace_pattern;
  /// What an object with `properties` and no word on other keys does; false refuses other keys, as
  /// vLLM's `disable_additional_properties`.
  bool additional_properties = true;
  /// False: what a grammar cannot enforce is left to the validator.
  bool strict = true;
};

/// The grammar of the JSON texts that are valid by `schema`, as xgrammar's EBNF whose root rule is
/// `root`. Keys come in the schema's order, undeclared ones after them. Throws
/// Error(input_unusable) that names keyword and JSON pointer where a schema is malformed, cannot be
/// enforced exactly, or makes more than the bounds of README.md allow.
std::string ebnf_of_schema(std::string_view schema, const SchemaOptions& options);

/// The grammar of all JSON objects.
std::string ebnf_of_json_object(const SchemaOptions& options);

/// The grammar of the texts that an ECMA-262 regular expression matches as a whole. Throws
/// Error(input_unusable) that names the construct and its place.
std::string ebnf_of_regex(std::string_view regex);

/// The grammar of these texts alone. Throws Error(input_unusable) if there is none, or too many
/// bytes.
std::string ebnf_of_choice(std::span<const std::string> choices);

struct Schema;

/// A JSON schema, parsed once for its grammar and for the validation of answers.
class JsonSchema {
 public:
  /// Throws Error(input_unusable) where the schema is malformed.
  explicit JsonSchema(std::string_view text);
  /// The grammar of the JSON texts that are valid by the schema, as ebnf_of_schema.
  [[nodiscard]] std::string ebnf(const SchemaOptions& options) const;
  /// Empty where the answer is valid JSON by the schema, with keys in any order; else the first
  /// thing wrong, with its JSON pointer.
  [[nodiscard]] std::string refuse(std::string_view answer) const;

 private:
  std::shared_ptr<const Schema> schema_;
};

}  // namespace plimsoll::grammar
