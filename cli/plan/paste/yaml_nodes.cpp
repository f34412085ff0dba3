#include "cli/plan/paste/yaml_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace plimsoll::cli {

void refuse_size() {
  fail(ExitCode::usage, "--from: the YAML file stands for too much text (aliases, $(NAME))");
}

std::string text_of(const YAML::Node& node) {
  return node.IsScalar() ? node.Scalar() : "";
}

namespace {

/// What a map takes over by "<<: *alias" or "<<: [*a, *b]", whose first map with the key has it.
YAML::Node inherited(const YAML::Node& map, const char* name) {
  constexpr size_t kMostMerged = 64;  // maps: each is looked at for each name
  const YAML::Node merged = map["<<"];
  if (merged && merged.IsMap()) return merged[name];
  const size_t count = merged && merged.IsSequence() ? std::min(merged.size(), kMostMerged) : 0;
  for (size_t i = 0; i < count; ++i) {
    const YAML::Node one = merged[i];
    if (one.IsMap() && one[name]) return one[name];
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

}  // namespace

YAML::Node below(YAML::Node node, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!node.IsMap()) return YAML::Node(YAML::NodeType::Undefined);
    const YAML::Node own = std::as_const(node)[name];
    const YAML::Node next = own ? own : inherited(node, name);
    if (!next) return YAML::Node(YAML::NodeType::Undefined);
    node.reset(next);
  }
  return node;
}

namespace {

/// "maxModelLen" and "max_model_len" as "--max-model-len".
std::string flag_of(const std::string& key) {
  std::string flag = "--";
  for (const char c : key) {
    if (std::isupper(static_cast<unsigned char>(c)) != 0) flag += '-';
    flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return flag;
}

/// A map or a list in one line, as JSON, which YAML's flow style with quotes is.
std::string json_of(const YAML::Node& node, int& nodes, int depth = 0) {
  if (--nodes < 0 || depth > kDeepest) refuse_size();  // an alias may stand in what it names
  if (node.IsNull()) return "null";
  if (node.IsScalar()) {
    const std::string text = node.Scalar() == "True"    ? "true"
                             : node.Scalar() == "False" ? "false"
                                                        : node.Scalar();
    const bool plain =
        node.Tag() != "!" &&
        (text == "true" || text == "false" || text == "null" ||
         (!text.empty() && text.find_first_not_of("0123456789.+-eE") == std::string::npos));
    return plain ? text : Json(text).dump();
  }
  std::string out;
  if (node.IsMap()) {
    for (const auto& item : node)
      out += (out.empty() ? "" : ",") + Json(text_of(item.first)).dump() + ":" +
             json_of(item.second, nodes, depth + 1);
    return "{" + out + "}";
  }
  for (const YAML::Node& item : node)
    out += (out.empty() ? "" : ",") + json_of(item, nodes, depth + 1);
  return "[" + out + "]";
}

}  // namespace

void append_flags(const YAML::Node& map, Words& words) {
  if (!map || !map.IsMap()) return;
  for (const auto& item : map) {
    const std::string key = text_of(item.first);
    const YAML::Node& value = item.second;
    const std::string text = text_of(value);
    if (key == "extraArgs" && value.IsSequence()) {
      for (const YAML::Node& word : value) words.push_back(text_of(word));
    } else if (value.IsSequence()) {
      words.push_back(flag_of(key));
      for (const YAML::Node& word : value) words.push_back(text_of(word));
    } else if (value.IsMap()) {
      int nodes = kMostNodes;
      words.push_back(flag_of(key) + "=" + json_of(value, nodes));
    } else if (text == "true" || text == "True") {
      words.push_back(flag_of(key));
    } else if (!value.IsNull() && text != "false" && text != "False") {
      words.push_back(flag_of(key) + "=" + text);
    }
  }
}

Words flags_of_yaml(const std::string& text) {
  Words words;
  try {
    append_flags(YAML::Load(text), words);
  } catch (const YAML::Exception&) {
    words.clear();
  }
  return words;
}

std::optional<Json> json_of_yaml(const std::string& text) {
  try {
    int nodes = kMostNodes;
    return parse_json<Json>(json_of(YAML::Load(text), nodes));
  } catch (const YAML::Exception&) {
    return std::nullopt;
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

void ConfigMaps::add(const YAML::Node& document) {
  if (!document.IsMap() || text_of(below(document, {"kind"})) != "ConfigMap") return;
  Variables& data = data_[text_of(below(document, {"metadata", "name"}))];
  const YAML::Node items = below(document, {"data"});
  if (!items || !items.IsMap()) return;
  for (const auto& item : items) data[text_of(item.first)] = text_of(item.second);
}

void ConfigMaps::add_whole(const YAML::Node& env_from, Variables& variables,
                           std::vector<std::string>& left_out) const {
  if (!env_from.IsSequence()) return;
  for (const YAML::Node& entry : env_from) {
    const YAML::Node reference = below(entry, {"configMapRef", "name"});
    if (!reference) continue;  // secrets set no flags
    const auto found = data_.find(text_of(reference));
    if (found == data_.end()) {
      left_out.push_back(fmt::format("envFrom {}", text_of(reference)));
      continue;
    }
    const YAML::Node prefix = below(entry, {"prefix"});
    // Where two have a name the later one's value counts.
    for (const auto& [key, value] : found->second)
      variables[(prefix ? text_of(prefix) : "") + key] = value;
  }
}

void ConfigMaps::add_one(const YAML::Node& entry, Variables& variables,
                         std::vector<std::string>& left_out) const {
  const YAML::Node reference = below(entry, {"valueFrom", "configMapKeyRef"});
  if (!reference) return;
  const std::string name = text_of(below(entry, {"name"}));
  const auto map = data_.find(text_of(below(reference, {"name"})));
  const std::string key = text_of(below(reference, {"key"}));
  if (map != data_.end() && map->second.contains(key))
    variables[name] = map->second.at(key);
  else
    left_out.push_back(fmt::format("env {} (of a ConfigMap)", name));
}

}  // namespace plimsoll::cli
