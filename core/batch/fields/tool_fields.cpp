#include "batch/fields/tool_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "batch/line_error.h"
#include "grammar/document.h"

namespace plimsoll::batch {
namespace {

using ToolChoice = RequestFields::ToolChoice;

constexpr std::string_view kChoices =
    "\"none\", \"auto\", \"required\" or {\"type\": \"function\", \"function\": {\"name\": ...}}";

[[noreturn]] void refuse_field(std::string_view field, const std::string& message) {
  throw LineError(code::bad_field, message, field);
}

/// The description of the function of a tool, which check_tools has seen: its name, and its
/// parameters' schema where it has one.
const OrderedJson& function_of(const OrderedJson& tools, size_t index) {
  return tools[index]["function"];
}

std::string place_of(size_t index) {
  return fmt::format("tools[{}].function.parameters", index);
}

/// The schema of a function's parameters; without one any object.
OrderedJson parameters_of(const OrderedJson& function, size_t index) {
  const auto found = function.find("parameters");
  if (found == function.end() || found->is_null() || found->empty()) {
    return {{"type", "object"}, {"properties", OrderedJson::object()}};
  }
  if (!found->is_object()) {
    refuse_field("tools", fmt::format("{}: expected a JSON schema, found {}", place_of(index),
                                      excerpt(*found)));
  }
  return *found;
}

/// A schema of forced calls, and where its parts stand among the tools.
struct ForcedCalls {
  OrderedJson schema;
  std::map<std::string, std::string> places = {};  // as of grammar::Constraint
};

ForcedCalls calls_of_named(const OrderedJson& tools, const std::string& name) {
  for (size_t i = 0; i < tools.size(); ++i) {
    const OrderedJson& function = function_of(tools, i);
    if (function["name"] == name) return {parameters_of(function, i), {{"", place_of(i)}}};
  }
  refuse_field("tool_choice",
               fmt::format("tool_choice: {} is not among the tools", excerpt(OrderedJson(name))));
}

/// An array of calls of any of the functions. Each schema of parameters is a document of its own,
/// whose references stay within it.
ForcedCalls calls_of_any(const OrderedJson& tools, bool parallel) {
  ForcedCalls forced;
  OrderedJson documents = OrderedJson::object();
  OrderedJson calls = OrderedJson::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const OrderedJson& function = function_of(tools, i);
    const auto name = function["name"].get<std::string>();
    if (documents.contains(name)) {
      refuse_field("tools", fmt::format("tools[{}].function.name: {} is there twice", i,
                                        excerpt(function["name"])));
    }
    OrderedJson parameters = parameters_of(function, i);
    if (!parameters.contains("$id")) parameters["$id"] = fmt::format("tool:{}", i);
    const OrderedJson reference = {{"$ref", parameters["$id"]}};
    documents[name] = std::move(parameters);
    forced.places["/$defs/" + grammar::pointer_step(name)] = place_of(i);
    calls.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", name}}}, {"parameters", reference}}},
                     {"required", {"name", "parameters"}},
                     {"additionalProperties", false}});
  }
  forced.schema = {{"type", "array"}, {"minItems", 1}};
  if (!parallel) forced.schema["maxItems"] = 1;
  forced.schema["items"] = {{"anyOf", std::move(calls)}};
  forced.schema["$defs"] = std::move(documents);
  return forced;
}

/// True where a function asks for its schema to the letter; else what a grammar cannot enforce is
/// left to the validation of answers.
bool asks_strictly(const OrderedJson& tools) {
  return std::ranges::any_of(tools, [](const OrderedJson& tool) {
    return tool["function"].value("strict", OrderedJson()) == true;
  });
}

/// Refuses what is no function, as vLLM does: a type other than "function", and a tool without a
/// function that has a name.
void check_tools(const OrderedJson& tools) {
  for (size_t i = 0; i < tools.size(); ++i) {
    const OrderedJson type = tools[i].value("type", OrderedJson());
    if (type.is_null() || type == "function") continue;
    refuse_field("tools", fmt::format("tools[{}].type: expected function, found {}", i,
                                      type.is_string() ? type.get<std::string>() : excerpt(type)));
  }
  for (size_t i = 0; i < tools.size(); ++i) {
    const auto function = tools[i].find("function");
    const bool is_named = function != tools[i].end() && function->is_object() &&
                          function->value("name", OrderedJson()).is_string();
    if (is_named) continue;
    refuse_field("tools", fmt::format("tools[{}].function.name: expected a string, found {}", i,
                                      excerpt(tools[i])));
  }
}

}  // namespace

void set_tool_choice(const FieldValue& value, RequestFields& fields) {
  const OrderedJson& json = value.json();
  constexpr std::pair<std::string_view, ToolChoice> kWords[] = {{"none", ToolChoice::none},
                                                                {"auto", ToolChoice::automatic},
                                                                {"required", ToolChoice::required}};
  for (const auto& [word, choice] : kWords) {
    if (json != word) continue;
    fields.tool_choice = choice;
    return;
  }
  const auto function = json.is_object() ? json.find("function") : json.end();
  if (!json.is_object() || function == json.end() || !function->is_object() ||
      !function->contains("name") || !(*function)["name"].is_string() ||
      json.value("type", OrderedJson("function")) != "function") {
    value.refuse(std::string(kChoices));
  }
  fields.tool_choice = ToolChoice::named;
  fields.forced_tool = (*function)["name"].get<std::string>();
}

void read_tools(const OrderedJson& body, RequestFields& fields, bool has_form) {
  if (fields.tools) check_tools(*fields.tools);
  if (!fields.forces_call()) return;
  if (!fields.tools || fields.tools->empty()) {
    refuse_field("tool_choice", fmt::format("tool_choice: {} needs tools beside it",
                                            excerpt(body["tool_choice"])));
  }
  if (has_form) {
    refuse_field("tool_choice",
                 "tool_choice: a forced call stands beside a form of the answer (response_format, "
                 "structured_outputs, guided_*); one of them says what form the answer has");
  }
  ForcedCalls forced = fields.tool_choice == ToolChoice::named
                           ? calls_of_named(*fields.tools, fields.forced_tool)
                           : calls_of_any(*fields.tools, fields.parallel_tool_calls);
  fields.constraint = grammar::Constraint{.kind = grammar::Constraint::Kind::schema,
                                          .text = forced.schema.dump(),
                                          .field = "tools",
                                          .places = std::move(forced.places)};
  fields.constraint->options.strict = asks_strictly(*fields.tools);
  // Calls are written as models learn them, without spaces to wander about in.
  fields.constraint->options.any_whitespace = false;
}

}  // namespace plimsoll::batch
