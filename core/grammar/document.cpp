#include "grammar/document.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/nearest_name.h"
#include "grammar/patterns/regex.h"

namespace plimsoll::grammar {
namespace {

Draft draft_of(const OrderedJson& root) {
  if (!root.is_object() || !root.contains("$schema") || !root["$schema"].is_string()) {
    return Draft::d2020;
  }
  const auto& name = root["$schema"].get_ref<const std::string&>();
  constexpr std::pair<std::string_view, Draft> kDrafts[] = {{"draft-03", Draft::d3},
                                                            {"draft-04", Draft::d4},
                                                            {"draft-06", Draft::d6},
                                                            {"draft-07", Draft::d7},
                                                            {"2019-09", Draft::d2019}};
  for (const auto& [part, draft] : kDrafts) {
    if (name.find(part) != std::string::npos) return draft;
  }
  return Draft::d2020;
}

std::string without_dots(const std::string& path) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at <= path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (part == "..") {
      if (parts.size() > 1) parts.pop_back();
    } else if (part != ".") {
      parts.push_back(part);
    }
    at = end + 1;
  }
  return fmt::format("{}", fmt::join(parts, "/"));
}

// RFC 3986, 5.2, of a base without a fragment.
std::string resolved(const std::string& base, const std::string& reference) {
  if (reference.empty()) return base;
  if (reference[0] == '#') return base + reference;
  const size_t colon = reference.find(':');
  if (colon != std::string::npos && colon < reference.find_first_of("/?#")) return reference;
  const size_t scheme = base.find("://");
  const size_t root =
      scheme == std::string::npos ? 0 : std::min(base.find('/', scheme + 3), base.size());
  if (reference.starts_with("//")) return base.substr(0, base.find(':') + 1) + reference;
  if (reference[0] == '/') return base.substr(0, root) + reference;
  const std::string path = base.substr(root, base.find_first_of("?#", root) - root);
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const size_t hash = std::min(reference.find_first_of("?#"), reference.size());
  const std::string head = base.substr(0, root) + (root > 0 && folder.empty() ? "/" : "");
  return head + without_dots(folder + reference.substr(0, hash)) + reference.substr(hash);
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (text[i] == '%' && i + 2 < text.size() && digit(i + 1) && digit(i + 2)) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

const OrderedJson* at_pointer(const OrderedJson& root, std::string_view fragment) {
  const OrderedJson* part = &root;
  size_t at = 0;
  while (at < fragment.size()) {
    const size_t end = std::min(fragment.find('/', at + 1), fragment.size());
    std::string key = percent_decoded(fragment.substr(at + 1, end - at - 1));
    for (size_t i = 0; (i = key.find('~', i)) != std::string::npos; ++i) {
      if (i + 1 < key.size()) key.replace(i, 2, key[i + 1] == '1' ? "/" : "~");
    }
    if (part->is_object()) {
      const auto found = part->find(key);
      if (found == part->end()) return nullptr;
      part = &*found;
    } else if (part->is_array()) {
      if (key.empty() || key.size() > 6 ||
          !std::ranges::all_of(key, [](char c) { return c >= '0' && c <= '9'; }))
        return nullptr;
      const size_t index = std::stoul(key);
      if (index >= part->size()) return nullptr;
      part = &(*part)[index];
    } else {
      return nullptr;
    }
    at = end;
  }
  return part;
}

// Keywords whose values are maps from names to schemas, and those whose values are no schemas.
bool is_map(std::string_view key) {
  constexpr std::string_view kMaps[] = {"properties",  "patternProperties", "$defs",
                                        "definitions", "dependentSchemas",  "dependencies"};
  return std::ranges::find(kMaps, key) != std::end(kMaps);
}
bool is_data(std::string_view key) {
  return key == "enum" || key == "const" || key == "default" || key == "examples";
}

constexpr std::string_view kKeywords[] = {"$dynamicRef",
                                          "$recursiveRef",
                                          "$ref",
                                          "additionalItems",
                                          "additionalProperties",
                                          "allOf",
                                          "anyOf",
                                          "const",
                                          "contains",
                                          "dependencies",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "disallow",
                                          "divisibleBy",
                                          "else",
                                          "enum",
                                          "exclusiveMaximum",
                                          "exclusiveMinimum",
                                          "extends",
                                          "format",
                                          "if",
                                          "items",
                                          "maxContains",
                                          "maxItems",
                                          "maxLength",
                                          "maxProperties",
                                          "maximum",
                                          "minContains",
                                          "minItems",
                                          "minLength",
                                          "minProperties",
                                          "minimum",
                                          "multipleOf",
                                          "not",
                                          "oneOf",
                                          "pattern",
                                          "patternProperties",
                                          "prefixItems",
                                          "properties",
                                          "propertyNames",
                                          "required",
                                          "then",
                                          "type",
                                          "unevaluatedProperties",
                                          "unevaluatedItems",
                                          "uniqueItems"};
constexpr std::string_view kAnnotations[] = {"$anchor",
                                             "$comment",
                                             "$defs",
                                             "$dynamicAnchor",
                                             "$id",
                                             "$schema",
                                             "$vocabulary",
                                             "$recursiveAnchor",
                                             "contentEncoding",
                                             "contentMediaType",
                                             "contentSchema",
                                             "default",
                                             "definitions",
                                             "deprecated",
                                             "description",
                                             "discriminator",
                                             "example",
                                             "examples",
                                             "externalDocs",
                                             "id",
                                             "nullable",
                                             "readOnly",
                                             "title",
                                             "writeOnly",
                                             "xml"};

// What schemas are wrapped in by requests, tools and other servers.
constexpr std::string_view kWrappers[] = {
    "choice",         "choices",     "function",        "guided_choice",
    "guided_grammar", "guided_json", "guided_regex",    "grammar",
    "input_schema",   "json",        "json_schema",     "parameters",
    "regex",          "schema",      "response_format", "structured_outputs"};

}  // namespace

std::string pointer_step(std::string_view key) {
  std::string out;
  for (const char c : key) out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return out;
}

void refuse(std::string_view keyword, std::string_view pointer, std::string_view why) {
  fail(ExitCode::input_unusable, "JSON schema: {} at \"{}\": {}", keyword, pointer, why);
}

Schema::Schema(std::string_view json) {
  try {
    JsonLimits limits = kOrderedLimits;
    limits.number_texts = true;
    root = parse_json<OrderedJson>(json, limits);
  } catch (const JsonError& error) {
    fail(ExitCode::input_unusable, "JSON schema: line {}, column {}: {}", error.line, error.column,
         error.what());
  }
  if (!root.is_object() && !root.is_boolean()) {
    fail(ExitCode::input_unusable, "JSON schema: neither an object nor true or false");
  }
  draft = draft_of(root);
  resources_.emplace("", &root);
  walk(root, {"", ""}, true);
}

void Schema::walk(const OrderedJson& part, const Where& where, bool is_schema) {
  Where own = where;
  if (is_schema && part.is_object()) {
    const auto text = [&](const char* key) -> const std::string* {
      const auto found = part.find(key);
      return found != part.end() && found->is_string() ? &found->get_ref<const std::string&>()
                                                       : nullptr;
    };
    const bool reference_alone = draft <= Draft::d7 && text("$ref") != nullptr;
    const std::string* id = text(draft <= Draft::d4 ? "id" : "$id");
    if (id != nullptr && !reference_alone) {
      const std::string uri = resolved(own.base, *id);
      const size_t hash = uri.find('#');
      if (hash != std::string::npos && hash + 1 < uri.size()) {
        resources_.emplace(uri, &part);
      } else {
        own.base = uri.substr(0, hash);
        resources_.emplace(own.base, &part);
      }
    }
    if (const std::string* anchor = text("$anchor"))
      resources_.emplace(own.base + "#" + *anchor, &part);
    if (const std::string* anchor = text("$dynamicAnchor")) {
      resources_.emplace(own.base + "#" + *anchor, &part);
      ++dynamic_anchors_[*anchor];
    }
    if (part.contains("$recursiveAnchor")) ++dynamic_anchors_[""];
  }
  where_.emplace(&part, own);
  if (part.is_object()) {
    for (const auto& [key, value] : part.items()) {
      if (is_schema && is_data(key)) continue;
      const bool map = is_schema && is_map(key) && value.is_object();
      walk(value, {own.base, own.pointer + "/" + pointer_step(key)}, !map);
    }
  } else if (part.is_array()) {
    for (size_t i = 0; i < part.size(); ++i) {
      walk(part[i], {own.base, own.pointer + "/" + std::to_string(i)}, true);
    }
  }
}

void Schema::check_keywords(const OrderedJson& part) const {
  if (&part != &root && !part.contains("$id")) return;
  const auto has = [](const auto& names, std::string_view key) {
    return std::ranges::find(names, key) != std::end(names);
  };
  std::string found, meant;
  for (const auto& [key, value] : part.items()) {
    if (has(kKeywords, key)) return;
    if (!found.empty() || has(kAnnotations, key)) continue;
    meant = nearest_name(key, kKeywords);
    if (has(kWrappers, key) || !meant.empty()) found = key;
  }
  if (found.empty()) return;
  refuse(found, pointer(part),
         fmt::format("is no keyword of JSON schemas, and there is none beside it{}",
                     has(kWrappers, found) ? "; give the schema itself" : did_you_mean(meant)));
}

const OrderedJson& Schema::target(const OrderedJson& from, std::string_view keyword) const {
  const auto& value = from.at(std::string(keyword));
  if (!value.is_string()) refuse(keyword, pointer(from), "is no string");
  const auto& reference = value.get_ref<const std::string&>();
  const std::string uri = resolved(where_.at(&from).base, reference);
  const size_t hash = std::min(uri.find('#'), uri.size());
  const std::string fragment = hash < uri.size() ? uri.substr(hash + 1) : "";
  if (keyword == "$dynamicRef" || keyword == "$recursiveRef") {
    const auto dynamic = dynamic_anchors_.find(keyword == "$recursiveRef" ? "" : fragment);
    if (dynamic != dynamic_anchors_.end() && dynamic->second > 1) {
      refuse(keyword, pointer(from), "several anchors of that name are not supported");
    }
  }
  const OrderedJson* found = nullptr;
  if (fragment.empty() || fragment[0] == '/') {
    const auto resource = resources_.find(uri.substr(0, hash));
    if (resource != resources_.end()) found = at_pointer(*resource->second, fragment);
  } else if (const auto anchor = resources_.find(percent_decoded(uri));
             anchor != resources_.end()) {
    found = anchor->second;
  }
  if (found == nullptr) {
    refuse(keyword, pointer(from), fmt::format("\"{}\" is not in the schema", reference));
  }
  if (!found->is_object() && !found->is_boolean()) {
    refuse(keyword, pointer(from), fmt::format("\"{}\" is no schema", reference));
  }
  return *found;
}

DfaPtr Schema::pattern(const std::string& regex) const {
  const std::lock_guard lock(mutex_);
  auto& known = patterns_[regex];
  if (!known) known = share(dfa_of_regex(regex, Match::search));
  return known;
}

std::string Schema::pointer(const OrderedJson& part) const {
  const auto found = where_.find(&part);
  return found == where_.end() ? "" : found->second.pointer;
}

}  // namespace plimsoll::grammar
