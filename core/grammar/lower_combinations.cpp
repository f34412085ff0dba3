// Keywords that combine schemas.
#include <algorithm>

#include "grammar/lowering.h"

namespace plimsoll::grammar {
namespace {

Values only(ObjectShape shape) {
  Values values = Values::all();
  values.objects = {std::move(shape)};
  return values;
}

}  // namespace

void Lowering::add_references(std::vector<SetId>& parts) {
  for (const char* keyword : {"$ref", "$recursiveRef", "$dynamicRef"}) {
    const auto* reference = find(keyword);
    if (reference == nullptr) continue;
    parts.push_back(sets_.schema(schema_.target(*last_, keyword)));
  }
}

void Lowering::add_combinations(std::vector<SetId>& parts) {
  for (const char* keyword : {"extends", "disallow"}) {
    if (schema_.draft == Draft::d3 && find(keyword) != nullptr) wrong("is not supported");
  }
  if (const auto* list = find("allOf")) {
    for (const SetId part : schemas(*list)) parts.push_back(part);
  }
  if (const auto* list = find("anyOf")) parts.push_back(sets_.any_of(schemas(*list)));
  if (const auto* list = find("oneOf")) {
    // What the other keywords leave of the alternatives decides whether they overlap.
    const SetId so_far = sets_.all_of(parts);
    std::vector<SetId> alternatives;
    for (const SetId part : schemas(*list)) alternatives.push_back(sets_.all_of({so_far, part}));
    parts = {sets_.one_of(alternatives)};
    keyword_ = "oneOf";
  }
  if (const auto* part = find("not")) {
    if (!part->is_object() && !part->is_boolean()) wrong("is no schema");
    parts.push_back(sets_.none_of(sets_.schema(*part)));
  }
}

void Lowering::add_conditions(std::vector<SetId>& parts) {
  const auto* condition = find("if");
  if (condition == nullptr || schema_.draft < Draft::d7) return;
  const SetId test = sets_.schema(*condition);
  const auto* then = find("then");
  const auto* otherwise = find("else");
  const SetId yes = then != nullptr ? sets_.schema(*then) : kAny;
  const SetId no = otherwise != nullptr ? sets_.schema(*otherwise) : kAny;
  parts.push_back(
      sets_.any_of({sets_.all_of({test, yes}), sets_.all_of({sets_.none_of(test), no})}));
}

SetId Lowering::missing(const std::string& name) {
  ObjectShape shape;
  shape.properties = {{name, kNone, false, false}};
  return sets_.of(only(std::move(shape)));
}

SetId Lowering::has_all(const std::vector<std::string>& names) {
  ObjectShape shape;
  for (const auto& name : names) {
    if (shape.find(name) == nullptr) shape.properties.push_back({name, kAny, true, false});
  }
  return sets_.of(only(std::move(shape)));
}

void Lowering::add_dependencies(std::vector<SetId>& parts) {
  for (const char* keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
    const auto* map = find(keyword);
    if (map == nullptr) continue;
    if (!map->is_object()) wrong("is no object");
    for (const auto& [name, value] : map->items()) {
      SetId then = kAny;
      if (value.is_array()) {
        then = has_all(names(value));
      } else if (value.is_string() && schema_.draft == Draft::d3) {
        then = has_all({value.get<std::string>()});
      } else if (value.is_object() || value.is_boolean()) {
        then = sets_.schema(value);
      } else {
        wrong("has what is neither a list nor a schema");
      }
      parts.push_back(sets_.any_of({missing(name), sets_.all_of({has_all({name}), then})}));
    }
  }
}

bool Lowering::gather(const OrderedJson& part, ObjectShape& known, int depth) {
  WorkLimit::spend(1000);  // references may lead here many times
  if (depth > 50) wrong("is nested too deep");
  if (!part.is_object()) return true;
  for (const char* keyword :
       {"anyOf", "oneOf", "if", "dependentSchemas", "$dynamicRef", "$recursiveRef"}) {
    if (part.contains(keyword)) return false;
  }
  if (const auto found = part.find("properties"); found != part.end() && found->is_object()) {
    for (const auto& [name, value] : found->items()) {
      if (known.find(name) == nullptr) known.properties.push_back({name, kAny, false, false});
    }
  }
  if (const auto found = part.find("patternProperties");
      found != part.end() && found->is_object()) {
    for (const auto& [regex, value] : found->items()) {
      Dfa keys = *schema_.pattern(regex);
      for (const auto& c : known.classes) keys = combine(keys, *c.keys, BothWays::difference);
      if (!keys.empty()) known.classes.push_back({share(std::move(keys)), kAny});
    }
  }
  if (part.contains("additionalProperties") ||
      (depth > 0 && part.contains("unevaluatedProperties"))) {
    known.other = kAny;
  }
  if (part.contains("$ref") && !gather(schema_.target(part, "$ref"), known, depth + 1))
    return false;
  if (const auto found = part.find("allOf"); found != part.end() && found->is_array()) {
    for (const auto& inner : *found) {
      if (!gather(inner, known, depth + 1)) return false;
    }
  }
  return true;
}

void Lowering::add_unevaluated(std::vector<SetId>& parts) {
  if (schema_.draft < Draft::d2019) return;
  if (const auto* rest = find("unevaluatedProperties"); rest != nullptr && *rest != true) {
    ObjectShape known;
    known.other = sets_.schema(*rest);
    if (!gather(*last_, known, 0)) {
      if (options_.strict) wrong("is not supported beside anyOf, oneOf, if and the like");
    } else {
      parts.push_back(sets_.of(only(std::move(known))));
    }
  }
  if (const auto* rest = find("unevaluatedItems"); rest != nullptr && *rest != true) {
    for (const char* keyword :
         {"anyOf", "oneOf", "allOf", "if", "$ref", "contains", "$dynamicRef", "$recursiveRef"}) {
      if (!last_->contains(keyword)) continue;
      if (options_.strict) wrong("is not supported beside anyOf, oneOf, if and the like");
      return;
    }
    if (last_->contains("items") && !(*last_)["items"].is_array()) return;
    if (last_->contains("additionalItems")) return;
    ArrayShape shape;
    const char* prefix = last_->contains("prefixItems") ? "prefixItems" : "items";
    if (last_->contains(prefix)) shape.prefix.assign((*last_)[prefix].size(), kAny);
    shape.rest = sets_.schema(*rest);
    Values values = Values::all();
    values.arrays = {std::move(shape)};
    parts.push_back(sets_.of(std::move(values)));
  }
}

}  // namespace plimsoll::grammar
