#include "grammar/constraint.h"

#include <fmt/format.h>

#include "base/error.h"

namespace plimsoll::grammar {
namespace {

// Larger grammars of users are refused before xgrammar reads them.
constexpr size_t kMostEbnfBytes = size_t{256} << 10;

}  // namespace

std::string Constraint::ebnf() const {
  switch (kind) {
    case Kind::schema:
      return ebnf_of_schema(text, options);
    case Kind::json_object:
      return ebnf_of_json_object(options);
    case Kind::regex:
      return ebnf_of_regex(text);
    case Kind::choice:
      return ebnf_of_choice(choices);
    case Kind::ebnf:
      break;
  }
  if (text.size() > kMostEbnfBytes) {
    fail(ExitCode::input_unusable, "the grammar has {} bytes, and at most {} are taken",
         text.size(), kMostEbnfBytes);
  }
  return text;
}

std::string Constraint::key() const {
  std::string key = fmt::format("{} {} {} {} {} ", static_cast<int>(kind), options.any_whitespace,
                                options.additional_properties, options.strict,
                                options.whitespace_pattern.has_value());
  const auto add = [&](const std::string& part) { key += fmt::format("{}:{}", part.size(), part); };
  add(options.whitespace_pattern.value_or(""));
  add(text);
  for (const std::string& choice : choices) add(choice);
  return key;
}

}  // namespace plimsoll::grammar
