// Defaults that transformers' config classes have: many published configs leave out whatever equals
// their class's default. The table (class_defaults.json) is written by
// tests/against/class_defaults.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/class_defaults.h"

namespace plimsoll::model {

namespace {

/// Types whose inner configs inherit from each other do not nest deeper than this.
constexpr int kDeepest = 4;
constexpr const char* kTied = "tie_word_embeddings";

/// The table has a line for each type; those alone are parsed that are asked for.
std::optional<Json> find_row(const std::string& name) {
  const std::string_view table = class_defaults_text();
  const std::string key = "\n\"" + name + "\": ";
  size_t begin = table.find(key);
  if (begin == std::string_view::npos) return std::nullopt;
  begin += key.size();
  std::string_view row = table.substr(begin, table.find('\n', begin) - begin);
  if (row.ends_with(',')) row.remove_suffix(1);
  return parse_json<Json>(std::string(row));
}

std::optional<Json> row_of(std::string_view type, ConfigClasses whose) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  if (type.empty() || !std::ranges::all_of(type, plain)) return std::nullopt;
  if (whose == ConfigClasses::vllm) {
    if (auto row = find_row("vllm/" + std::string(type))) return row;
  }
  return find_row(std::string(type));
}

std::string type_of(const Json& object) {
  const auto type = object.find("model_type");
  return type != object.end() && type->is_string() ? type->get<std::string>() : "";
}

bool states(const Json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && !value->is_null();
}

/// "a|b|c" is set as "a" unless the config states one of them.
void assume(Json& object, std::string_view names, const Json& value) {
  const std::string first(names.substr(0, names.find('|')));
  while (!names.empty()) {
    const size_t bar = names.find('|');
    if (object.contains(std::string(names.substr(0, bar)))) return;
    names.remove_prefix(bar == std::string_view::npos ? names.size() : bar + 1);
  }
  object[first] = value;
}

class Completion {
 public:
  explicit Completion(ConfigClasses whose) : whose_(whose) {}

  void complete(Json& object, const Json& defaults, int depth) const {
    if (depth > kDeepest) return;
    for (const auto& [key, value] : defaults.items()) {
      if (key == "rope_parameters") {
        if (!states(object, "rope_parameters") && !states(object, "rope_scaling")) {
          object[key] = value;
        }
        continue;
      }
      // Heads of transformers' models are tied by what the whole's config says.
      if (depth > 0 && key == kTied && whose_ == ConfigClasses::transformers) continue;
      const auto inner = object.find(key);
      if (inner != object.end() && inner->is_object()) {
        complete_inner(*inner, value, depth + 1);
      } else if (!value.is_object() && !key.ends_with("_config")) {
        assume(object, key, value);
      } else if (key == "text_config" && inner == object.end()) {
        complete_inner(object, value, depth + 1);  // older configs have the text's keys outside
      }
    }
  }

  /// A config within one: `rule` is the object of its class's defaults, or the type that it has
  /// where it names none. A rule of another kind belongs to a key that holds no config: an object
  /// there is left for the family to refuse.
  void complete_inner(Json& object, const Json& rule, int depth) const {
    if (rule.is_object()) {
      complete(object, rule, depth);
      return;
    }
    if (!rule.is_string()) return;
    const std::string type = type_of(object);
    const auto row = row_of(type.empty() ? rule.get<std::string>() : type, whose_);
    if (row) complete(object, *row, depth);
  }

 private:
  ConfigClasses whose_;
};

}  // namespace

void complete_config(Json& config, ConfigClasses whose, std::string_view usual_type) {
  if (!config.is_object()) return;
  const Completion completion(whose);
  auto row = row_of(type_of(config), whose);
  if (!row) row = row_of(usual_type, whose);
  if (row) {
    completion.complete(config, *row, 0);
    return;
  }
  // An outer type that transformers has no class for says nothing of the models within.
  for (const char* key : {"text_config", "llm_config", "language_config", "vision_config"}) {
    const auto inner = config.find(key);
    if (inner != config.end() && inner->is_object()) completion.complete_inner(*inner, "", 0);
  }
}

}  // namespace plimsoll::model
