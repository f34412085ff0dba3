// What transformers assumes where a config is silent: many published configs leave out whatever
// equals their class's default. The table (class_defaults.json) is written by
// tests/against/class_defaults.
#include <string>
#include <string_view>

#include "base/json.h"
#include "plan/shapes/config_defaults.h"

namespace plimsoll::plan {

namespace {

/// Types whose inner configs inherit from each other do not nest deeper than this.
constexpr int kDeepest = 4;

const Json& class_defaults() {
  static const auto table = parse_json<Json>(class_defaults_text());
  return table;
}

const Json* row_of(const std::string& type) {
  const auto row = class_defaults().find(type);
  return row == class_defaults().end() ? nullptr : &*row;
}

/// "a|b" is set as "a" unless the config states either.
void assume(Json& object, std::string_view names, const Json& value) {
  const size_t bar = names.find('|');
  const std::string name(names.substr(0, bar));
  if (object.contains(name)) return;
  if (bar != std::string_view::npos && object.contains(std::string(names.substr(bar + 1)))) return;
  object[name] = value;
}

void complete(Json& object, const Json& defaults, int depth);

/// A config within one: `rule` is the object of its class's defaults, or the type that it has
/// where it names none.
void complete_inner(Json& object, const Json& rule, int depth) {
  if (rule.is_object()) {
    complete(object, rule, depth);
    return;
  }
  const auto type = object.find("model_type");
  const bool named = type != object.end() && type->is_string();
  if (const Json* row = row_of(named ? type->get<std::string>() : rule.get<std::string>()))
    complete(object, *row, depth);
}

void complete(Json& object, const Json& defaults, int depth) {
  if (depth > kDeepest) return;
  for (const auto& [key, value] : defaults.items()) {
    const auto inner = object.find(key);
    if (inner != object.end() && inner->is_object()) {
      complete_inner(*inner, value, depth + 1);
    } else if (!value.is_object() && !key.ends_with("_config")) {
      assume(object, key, value);
    }
  }
}

}  // namespace

void complete_config(Json& config) {
  if (!config.is_object()) return;
  const auto type = config.find("model_type");
  const Json* row =
      type != config.end() && type->is_string() ? row_of(type->get<std::string>()) : nullptr;
  if (row != nullptr) {
    complete(config, *row, 0);
    return;
  }
  // An outer type that transformers has no class for says nothing of the models within.
  for (const char* key : {"text_config", "llm_config", "language_config", "vision_config"}) {
    const auto inner = config.find(key);
    if (inner != config.end() && inner->is_object()) complete_inner(*inner, "", 0);
  }
}

}  // namespace plimsoll::plan
