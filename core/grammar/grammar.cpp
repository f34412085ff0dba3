#include "grammar/grammar.h"

#include <fmt/format.h>

#include "base/error.h"
#include "grammar/emitter.h"
#include "grammar/patterns/regex.h"

namespace plimsoll::grammar {
namespace {

constexpr int64_t kWork = 40'000'000;  // some seconds
constexpr size_t kMaxChoiceBytes = size_t{1} << 20;

// The keyword of a schema that a refusal is most likely about.
std::string keyword_of(const OrderedJson& schema, std::string_view why) {
  constexpr const char* kCombining[] = {"oneOf", "anyOf", "not", "if", "allOf", "$ref"};
  constexpr const char* kTexts[] = {"pattern",   "format",    "patternProperties", "propertyNames",
                                    "maxLength", "minLength", "multipleOf"};
  constexpr const char* kCounts[] = {"maxItems",      "minItems",  "contains", "maxProperties",
                                     "minProperties", "maxLength", "minLength"};
  const auto first = [&](const auto& keywords) -> std::string {
    for (const char* keyword : keywords) {
      if (schema.is_object() && schema.contains(keyword)) return keyword;
    }
    return "";
  };
  const auto says = [&](const char* word) { return why.find(word) != std::string_view::npos; };
  std::string found;
  if (says("count")) found = first(kCounts);
  if (found.empty() && (says("automaton") || says("length") || says("work"))) found = first(kTexts);
  if (found.empty()) found = first(kCombining);
  return found.empty() ? "schema" : found;
}

}  // namespace

std::string JsonSchema::ebnf(const SchemaOptions& options) const {
  const Schema& schema = *schema_;
  const WorkLimit limit(kWork);
  Lowering lowering(schema, options);
  std::optional<Emitter> emitter;
  const auto refused = [&](const std::exception& error) {
    const OrderedJson* part = emitter ? lowering.sets().origin(emitter->at_work()) : nullptr;
    const OrderedJson& at = part != nullptr ? *part : schema.root;
    grammar::refuse(keyword_of(at, error.what()), schema.pointer(at), error.what());
  };
  try {
    return emitter.emplace(lowering.sets(), options).grammar_of(lowering.root());
  } catch (const TooLarge& error) {
    refused(error);
  } catch (const EndlessReference& error) {
    refused(error);
  } catch (const RegexError& error) {
    fail(ExitCode::input_unusable, "whitespace_pattern: {}", error.what());
  }
  return "";
}

std::string ebnf_of_schema(std::string_view schema, const SchemaOptions& options) {
  return JsonSchema(schema).ebnf(options);
}

std::string ebnf_of_json_object(const SchemaOptions& options) {
  return ebnf_of_schema(R"({"type":"object"})", options);
}

std::string ebnf_of_regex(std::string_view regex) {
  const WorkLimit limit(kWork);
  try {
    const Dfa dfa = dfa_of_regex(regex, Match::whole);
    if (dfa.empty()) throw RegexError("it matches nothing");
    Rules rules;
    const std::string start = rules.plain(dfa);
    return "root ::= " + start + "\n" + rules.text();
  } catch (const RegexError& error) {
    fail(ExitCode::input_unusable, "regex: {}", error.what());
  } catch (const TooLarge& error) {
    fail(ExitCode::input_unusable, "regex: {}", error.what());
  }
}

std::string ebnf_of_choice(std::span<const std::string> choices) {
  if (choices.empty()) fail(ExitCode::input_unusable, "choice: the list is empty");
  std::string out = "root ::= ";
  for (const auto& text : choices) {
    out += (&text == choices.data() ? "" : " | ") + literal(text);
    if (out.size() > kMaxChoiceBytes) fail(ExitCode::input_unusable, "choice: more than 1 MB");
  }
  return out + "\n";
}

}  // namespace plimsoll::grammar
