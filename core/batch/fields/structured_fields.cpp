#include "batch/fields/structured_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/nearest_name.h"
#include "batch/line_error.h"

namespace plimsoll::batch {
namespace {

using grammar::Constraint;
using Kind = Constraint::Kind;

/// A member that is given: not null.
const OrderedJson* member(const OrderedJson& object, std::string_view name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void refuse(std::string_view field, const std::string& message) {
  throw LineError(code::bad_field, message, field);
}

/// What `read` returns; its errors blame the whole field, not a member.
template <typename Read>
auto read_field(std::string_view field, const Read& read) {
  try {
    return read();
  } catch (const LineError& error) {
    throw LineError(error.code(), error.what(), field);
  }
}

/// A schema stands as JSON, or as a string of JSON.
std::string schema_text(const FieldValue& value) {
  const OrderedJson& json = value.json();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object() && !json.is_boolean()) value.refuse("a JSON schema, or one as a string");
  return exact_text_of(json);
}

Constraint from(Kind kind, const FieldValue& value) {
  Constraint constraint{.kind = kind};
  switch (kind) {
    case Kind::schema:
      constraint.text = schema_text(value);
      break;
    case Kind::choice:
      constraint.choices = value.strings();
      if (constraint.choices.empty()) value.refuse("at least one string");
      break;
    case Kind::regex:
    case Kind::ebnf:
      constraint.text = value.string();
      break;
    case Kind::json_object:
      break;
  }
  return constraint;
}

// ---- response_format ----

/// Null for a text of any form.
std::optional<Constraint> read_response_format(const OrderedJson& json) {
  const FieldValue value("response_format", json);
  const OrderedJson* type = member(value.object(), "type");
  if (type == nullptr || !type->is_string()) value.refuse("an object with a \"type\"");
  const OrderedJson* named = member(json, "json_schema");
  const OrderedJson* bare = member(json, "schema");  // as llama.cpp and Together take it
  if (*type == "text" || *type == "json_object") {
    const bool is_text = *type == "text";
    if (named != nullptr || (is_text && bare != nullptr)) {
      refuse(
          "response_format",
          fmt::format("response_format.{}: has no effect beside type {}; a schema goes with type "
                      "\"json_schema\"",
                      named != nullptr ? "json_schema" : "schema", type->dump()));
    }
    if (is_text) return std::nullopt;
    if (bare != nullptr) return from(Kind::schema, FieldValue("response_format.schema", *bare));
    return Constraint{.kind = Kind::json_object};
  }
  if (*type != "json_schema") {
    refuse("response_format",
           fmt::format("response_format: type {} is not supported, only \"json_schema\", "
                       "\"json_object\" and \"text\"",
                       excerpt(*type)));
  }
  if (named == nullptr) refuse("response_format", "response_format.json_schema: is missing");
  const FieldValue described("response_format.json_schema", *named);
  const OrderedJson* schema = member(described.object(), "schema");
  if (schema == nullptr) {
    refuse("response_format", "response_format.json_schema.schema: is missing");
  }
  Constraint constraint =
      from(Kind::schema, FieldValue("response_format.json_schema.schema", *schema));
  if (const OrderedJson* strict = member(*named, "strict")) {
    constraint.options.strict = FieldValue("response_format.json_schema.strict", *strict).boolean();
  }
  return constraint;
}

// ---- structured_outputs and guided_* ----

struct Source {
  std::string_view key;     // of structured_outputs
  std::string_view guided;  // the older field; empty: there is none
  Kind kind;
};
constexpr Source kSources[] = {
    {"json", "guided_json", Kind::schema},     {"regex", "guided_regex", Kind::regex},
    {"choice", "guided_choice", Kind::choice}, {"grammar", "guided_grammar", Kind::ebnf},
    {"json_object", "", Kind::json_object},
};
constexpr std::string_view kPattern = "whitespace_pattern";
constexpr std::string_view kCompact = "disable_any_whitespace";
constexpr std::string_view kClosed = "disable_additional_properties";

void check_keys(const OrderedJson& object) {
  std::vector<std::string_view> names = {kPattern, kCompact, kClosed};
  for (const Source& source : kSources) names.push_back(source.key);
  for (const auto& [key, json] : object.items()) {
    if (json.is_null() || std::ranges::find(names, key) != names.end()) continue;
    if (key == "structural_tag") {
      refuse("structured_outputs", "structured_outputs.structural_tag: is not supported");
    }
    refuse("structured_outputs", fmt::format("structured_outputs.{}: is no known key{}", key,
                                             did_you_mean(nearest_name(key, names))));
  }
}

Constraint read_structured_outputs(const OrderedJson& json) {
  const OrderedJson& object = FieldValue("structured_outputs", json).object();
  check_keys(object);
  const auto is_true = [&](std::string_view key) {
    const OrderedJson* flag = member(object, key);
    const std::string name = fmt::format("structured_outputs.{}", key);
    return flag != nullptr && FieldValue(name, *flag).boolean();
  };
  std::optional<Constraint> found;
  for (const Source& source : kSources) {
    const OrderedJson* given = member(object, source.key);
    if (given == nullptr || (source.kind == Kind::json_object && !is_true(source.key))) continue;
    if (found) {
      refuse("structured_outputs",
             "structured_outputs: expected one of json, regex, choice, grammar, json_object, found "
             "several");
    }
    const std::string name = fmt::format("structured_outputs.{}", source.key);
    found = from(source.kind, FieldValue(name, *given));
  }
  if (!found) {
    refuse("structured_outputs",
           "structured_outputs: has none of json, regex, choice, grammar, json_object");
  }
  if (const OrderedJson* pattern = member(object, kPattern)) {
    found->options.whitespace_pattern =
        FieldValue("structured_outputs.whitespace_pattern", *pattern).string();
  }
  found->options.any_whitespace = !is_true(kCompact);
  found->options.additional_properties = !is_true(kClosed);
  return *found;
}

/// The refusal of a schema, with the request's own places for pointers into a schema that was put
/// together.
std::string placed(std::string refusal, const std::map<std::string, std::string>& places) {
  constexpr std::string_view kAt = " at \"";
  const size_t at = refusal.find(kAt);
  if (at == std::string::npos) return refusal;
  const std::string_view pointer = std::string_view(refusal).substr(at + kAt.size());
  for (const auto& [part, place] : places) {
    const bool within = pointer.starts_with(part) && pointer.size() > part.size() &&
                        (pointer[part.size()] == '/' || pointer[part.size()] == '"');
    if (within) return refusal.replace(at + kAt.size(), part.size(), place);
  }
  return refusal;
}

}  // namespace

bool read_constraint(const OrderedJson& body, RequestFields& fields) {
  std::string_view taken;
  const auto take = [&](std::string_view field, std::optional<Constraint> constraint) {
    if (!taken.empty()) {
      refuse(field, fmt::format("{}: stands beside {}; one of them says what form the answer has",
                                field, taken));
    }
    taken = field;
    if (constraint) constraint->field = field;
    fields.constraint = std::move(constraint);
  };
  if (const OrderedJson* json = member(body, "structured_outputs")) {
    take("structured_outputs",
         read_field("structured_outputs", [&] { return read_structured_outputs(*json); }));
  }
  for (const Source& source : kSources) {
    const OrderedJson* json = source.guided.empty() ? nullptr : member(body, source.guided);
    if (json == nullptr) continue;
    take(source.guided, from(source.kind, FieldValue(source.guided, *json)));
    if (const OrderedJson* pattern = member(body, "guided_whitespace_pattern")) {
      fields.constraint->options.whitespace_pattern =
          FieldValue("guided_whitespace_pattern", *pattern).string();
    }
  }
  if (const OrderedJson* json = member(body, "response_format")) {
    std::optional<Constraint> constraint =
        read_field("response_format", [&] { return read_response_format(*json); });
    // Clients write the usual format beside another field too.
    if (constraint || taken.empty()) take("response_format", std::move(constraint));
  }
  return !taken.empty() && fields.constraint.has_value();
}

bool is_structured_outputs(const OrderedJson& json) {
  return json.is_object() && std::ranges::any_of(kSources, [&](const Source& source) {
           return json.contains(source.key);
         });
}

std::shared_ptr<const grammar::CompiledGrammar> compile_constraint(
    grammar::Compiler& compiler, const grammar::Constraint& constraint) {
  try {
    return compiler.compile(constraint);
  } catch (const Error& error) {
    refuse(constraint.field,
           fmt::format("{}: {}", constraint.field, placed(error.what(), constraint.places)));
  }
}

void check_answers(const grammar::CompiledGrammar& grammar, const RequestFields& fields,
                   const engine::RequestOutput& output, const std::vector<text::ToolAnswer>& read) {
  if (fields.sampling.include_stop_str_in_output) return;
  for (size_t i = 0; i < output.completions.size(); ++i) {
    const engine::Completion& answer = output.completions[i];
    if (answer.finish != engine::FinishReason::stop || answer.stop_string) continue;
    // A call stands for an answer that has no other text.
    if (!read.empty() && read[i].content.empty() && !read[i].calls.empty()) continue;
    const bool only_reasons =
        !read.empty() && read[i].content.empty() && !read[i].reasoning.empty();
    if (only_reasons && !grammar.takes_empty_text()) {
      throw LineError(
          code::invalid_answer,
          fmt::format("answer {} ended within its reasoning, before what {} asks for; "
                      "thinking_token_budget (below max_tokens) ends reasoning in time, and "
                      "\"chat_template_kwargs\": {{\"enable_thinking\": false}} turns it off for "
                      "most models",
                      answer.index, fields.constraint->field));
    }
    const std::string refusal = grammar.refuse(read.empty() ? answer.text : read[i].content);
    if (refusal.empty()) continue;
    throw LineError(code::invalid_answer,
                    fmt::format("answer {} is not what {} asks for: {}", answer.index,
                                fields.constraint->field, refusal));
  }
}

}  // namespace plimsoll::batch
