#include "grammar/lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/formats.h"
#include "grammar/regex.h"

namespace plimsoll::grammar {
namespace {

DfaPtr share(Dfa dfa) {
  return std::make_shared<const Dfa>(std::move(dfa));
}

Values only(ObjectShape shape) {
  Values values = Values::all();
  values.objects = {std::move(shape)};
  return values;
}

}  // namespace

const OrderedJson* Lowering::find(const char* keyword) {
  const auto found = last_->find(keyword);
  if (found == last_->end()) return nullptr;
  keyword_ = keyword;
  return &*found;
}

void Lowering::wrong(std::string_view why) const {
  refuse(keyword_, last_pointer(), why);
}

uint64_t Lowering::count(const OrderedJson& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number >= 0 && number < 1e15 &&
        number == static_cast<double>(static_cast<uint64_t>(number))) {
      return static_cast<uint64_t>(number);
    }
  }
  wrong("is no number of things");
}

Decimal Lowering::number(const OrderedJson& value) {
  if (!value.is_number()) wrong("is no number");
  return decimal_of(value);
}

DfaPtr Lowering::pattern(const std::string& regex) {
  auto& known = patterns_[regex];
  if (!known) known = share(dfa_of_regex(regex, Match::search));
  return known;
}

std::vector<SetId> Lowering::schemas(const OrderedJson& list) {
  if (!list.is_array() || list.empty()) wrong("is no list of schemas");
  std::vector<SetId> parts;
  for (const auto& part : list) {
    if (!part.is_object() && !part.is_boolean()) wrong("is no list of schemas");
    parts.push_back(sets_.schema(part));
  }
  return parts;
}

std::vector<std::string> Lowering::names(const OrderedJson& list) {
  std::vector<std::string> out;
  if (!list.is_array()) wrong("is no list of names");
  for (const auto& name : list) {
    if (!name.is_string()) wrong("is no list of names");
    out.push_back(name.get<std::string>());
  }
  return out;
}

SetId Lowering::lower(const OrderedJson& part) {
  if (part.is_boolean()) return part.get<bool>() ? kAny : kNone;
  const OrderedJson* const before = last_;
  last_ = &part;
  keyword_ = "schema";
  if (!part.is_object()) wrong("is no schema");
  std::vector<SetId> parts;
  try {
    const bool alone = schema_.draft <= Draft::d7 && part.contains("$ref");
    if (!alone) {
      parts.push_back(sets_.of(scalars(part)));
      if (const auto* values = find("enum")) parts.push_back(listed(*values));
      if (const auto* value = find("const")) parts.push_back(constant(*value));
    }
    add_references(parts);
    if (!alone) {
      add_combinations(parts);
      add_conditions(parts);
      add_dependencies(parts);
      add_unevaluated(parts);
    }
  } catch (const RegexError& error) {
    wrong(error.what());
  } catch (const TooLarge& error) {
    wrong(error.what());
  }
  last_ = before != nullptr ? before : &part;
  return sets_.all_of(parts);
}

Values Lowering::scalars(const OrderedJson&) {
  Values own = Values::all();
  restrict_type(own);
  restrict_numbers(own);
  restrict_strings(own);
  restrict_arrays(own);
  restrict_objects(own);
  return own;
}

void Lowering::restrict_type(Values& own) {
  const auto* type = find("type");
  if (type == nullptr) return;
  const std::vector<std::string> types =
      type->is_string() ? std::vector{type->get<std::string>()} : names(*type);
  const Values all = Values::all();
  Values sum;
  for (const auto& name : types) {
    if (name == "null") {
      sum.null = true;
    } else if (name == "boolean") {
      sum.yes = sum.no = true;
    } else if (name == "integer") {
      sum.numbers = union_of(sum.numbers, integers(schema_.draft <= Draft::d4));
    } else if (name == "number") {
      sum.numbers = all.numbers;
    } else if (name == "string") {
      sum.strings = all.strings;
    } else if (name == "array") {
      sum.arrays = all.arrays;
    } else if (name == "object") {
      sum.objects = all.objects;
    } else if (name == "any" && schema_.draft == Draft::d3) {
      sum = all;
    } else {
      wrong(fmt::format("\"{}\" is no type", name));
    }
  }
  own = std::move(sum);
}

void Lowering::restrict_numbers(Values& own) {
  if (own.numbers.in->empty()) return;
  const auto restrict = [&](const NumberSet& to) {
    own.numbers = intersection_of(own.numbers, to);
  };
  const auto bound = [&](const char* keyword, const char* exclusive, auto limit) {
    const auto* strict = find(exclusive);
    const bool flag = strict != nullptr && strict->is_boolean();
    if (const auto* value = find(keyword)) {
      restrict(limit(number(*value), !(flag && strict->template get<bool>())));
    }
    if (strict != nullptr && !flag) {
      keyword_ = exclusive;
      restrict(limit(number(*strict), false));
    }
  };
  bound("minimum", "exclusiveMinimum", at_least);
  bound("maximum", "exclusiveMaximum", at_most);
  for (const char* keyword : {"multipleOf", "divisibleBy"}) {
    const auto* value = find(keyword);
    if (value == nullptr || (keyword[0] == 'd' && schema_.draft != Draft::d3)) continue;
    const Decimal divisor = number(*value);
    if (divisor.negative || (divisor.whole == "0" && divisor.fraction.empty())) {
      wrong("is not above zero");
    }
    restrict(multiples_of(divisor));
  }
}

void Lowering::restrict_strings(Values& own) {
  if (own.strings.empty()) return;
  StringPart& part = own.strings[0];
  if (const auto* least = find("minLength")) part.least = count(*least);
  if (const auto* most = find("maxLength")) part.most = count(*most);
  const auto restrict = [&](const DfaPtr& to) {
    part.texts =
        part.texts->universal() ? to : share(combine(*part.texts, *to, BothWays::intersection));
  };
  if (const auto* regex = find("pattern")) {
    if (!regex->is_string()) wrong("is no string");
    restrict(pattern(regex->get<std::string>()));
  }
  if (const auto* format = find("format"); format != nullptr && format->is_string()) {
    const auto& name = format->get_ref<const std::string&>();
    if (is_irregular_format(name) && options_.strict) {
      wrong(fmt::format("\"{}\" is not supported", name));
    }
    if (const DfaPtr dfa = format_dfa(name)) restrict(dfa);
  }
  if (!has_length(*part.texts, part.least, part.most)) own.strings.clear();
}

void Lowering::restrict_arrays(Values& own) {
  if (own.arrays.empty()) return;
  ArrayShape& shape = own.arrays[0];
  const auto* items = find("items");
  const auto* prefix = find("prefixItems");
  const auto* rest = items;
  if (prefix == nullptr && items != nullptr && items->is_array()) {
    prefix = items;
    rest = find("additionalItems");
    keyword_ = "items";
  }
  if (prefix != nullptr && !prefix->empty()) shape.prefix = schemas(*prefix);
  if (rest != nullptr) {
    if (!rest->is_object() && !rest->is_boolean()) wrong("is no schema");
    shape.rest = sets_.schema(*rest);
  }
  if (const auto* least = find("minItems")) shape.least = count(*least);
  if (const auto* most = find("maxItems")) shape.most = count(*most);
  if (const auto* item = find("contains"); item != nullptr && schema_.draft >= Draft::d6) {
    if (!item->is_object() && !item->is_boolean()) wrong("is no schema");
    Contains contains{sets_.schema(*item), 1, kNoBound, 0};
    if (schema_.draft >= Draft::d2019) {
      if (const auto* least = find("minContains")) contains.least = count(*least);
      if (const auto* most = find("maxContains")) contains.most = count(*most);
    }
    shape.contains.push_back(contains);
  }
  if (const auto* unique = find("uniqueItems"); unique != nullptr && *unique == true) {
    shape.unique_at = schema_.pointer(*last_);
    if (shape.unique_at.empty()) shape.unique_at = "/";
  }
}

void Lowering::restrict_objects(Values& own) {
  if (own.objects.empty()) return;
  ObjectShape& shape = own.objects[0];
  const auto* properties = find("properties");
  if (properties != nullptr) {
    if (!properties->is_object()) wrong("is no object");
    for (const auto& [name, value] : properties->items()) {
      if (!value.is_object() && !value.is_boolean()) {
        wrong(fmt::format("\"{}\" is no schema", name));
      }
      shape.properties.push_back({name, sets_.schema(value), false});
      if (schema_.draft == Draft::d3 && value.is_object() &&
          value.value("required", OrderedJson()) == true) {
        shape.properties.back().required = true;
      }
    }
  }
  if (const auto* other = find("additionalProperties")) {
    if (!other->is_object() && !other->is_boolean()) wrong("is no schema");
    shape.other = sets_.schema(*other);
  } else if (properties != nullptr && !options_.additional_properties) {
    shape.other = kNone;
  }
  add_patterns(shape);
  if (const auto* required = find("required"); required != nullptr && required->is_array()) {
    for (const auto& name : names(*required)) {
      const auto known = std::ranges::find(shape.properties, name, &Property::name);
      if (known != shape.properties.end()) {
        known->required = true;
      } else {
        shape.properties.push_back({name, shape.value_of(name), true, false});
      }
    }
  }
  add_property_names(shape);
  if (const auto* least = find("minProperties")) shape.least = count(*least);
  if (const auto* most = find("maxProperties")) shape.most = count(*most);
}

void Lowering::add_patterns(ObjectShape& shape) {
  const auto* patterns = find("patternProperties");
  if (patterns == nullptr) return;
  if (!patterns->is_object()) wrong("is no object");
  for (const auto& [regex, value] : patterns->items()) {
    if (!value.is_object() && !value.is_boolean()) wrong("has what is no schema");
    const SetId own = sets_.schema(value);
    const DfaPtr keys = pattern(regex);
    for (auto& property : shape.properties) {
      if (keys->accepts(property.name)) property.value = sets_.all_of({property.value, own});
    }
    std::vector<KeyClass> classes;
    Dfa left = *keys;
    const auto add = [&](Dfa dfa, SetId set) {
      if (!dfa.empty()) classes.push_back({share(std::move(dfa)), set});
    };
    for (const auto& known : shape.classes) {
      add(combine(*known.keys, *keys, BothWays::intersection), sets_.all_of({known.value, own}));
      add(combine(*known.keys, *keys, BothWays::difference), known.value);
      left = combine(left, *known.keys, BothWays::difference);
    }
    add(std::move(left), own);
    shape.classes = std::move(classes);
  }
}

void Lowering::add_property_names(ObjectShape& shape) {
  const auto* schema = find("propertyNames");
  if (schema == nullptr || schema_.draft < Draft::d6) return;
  if (!schema->is_object() && !schema->is_boolean()) wrong("is no schema");
  Dfa allowed;
  for (const auto& part : sets_.values(sets_.schema(*schema)).strings) {
    allowed = combine(allowed, limit_length(*part.texts, part.least, part.most), BothWays::union_);
  }
  if (allowed.universal()) return;
  for (auto& property : shape.properties) {
    if (!allowed.accepts(property.name)) property.value = kNone;
  }
  for (auto& known : shape.classes) {
    known.keys = share(combine(*known.keys, allowed, BothWays::intersection));
  }
  std::erase_if(shape.classes, [](const KeyClass& c) { return c.keys->empty(); });
  if (shape.other != kNone) shape.classes.push_back({share(complement_of(allowed)), kNone});
}

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
      Dfa keys = *pattern(regex);
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

SetId Lowering::constant(const OrderedJson& value) {
  OrderedJson list = OrderedJson::array();
  list.push_back(value);
  return listed(list);
}

SetId Lowering::listed(const OrderedJson& list) {
  if (!list.is_array()) wrong("is no list");
  Values sum;
  std::vector<std::string> strings;
  for (const auto& value : list) {
    WorkLimit::spend(100);
    if (value.is_null()) sum.null = true;
    if (value.is_boolean()) (value.get<bool>() ? sum.yes : sum.no) = true;
    if (value.is_string()) strings.push_back(value.get<std::string>());
    if (value.is_number()) {
      const Decimal number = decimal_of(value);
      sum.numbers =
          union_of(sum.numbers, intersection_of(at_least(number, true), at_most(number, true)));
    }
    if (value.is_array()) {
      ArrayShape shape;
      for (const auto& item : value) shape.prefix.push_back(constant(item));
      shape.rest = kNone;
      shape.least = shape.most = value.size();
      sum.arrays.push_back(std::move(shape));
    }
    if (value.is_object()) {
      ObjectShape shape;
      for (const auto& [name, item] : value.items()) {
        shape.properties.push_back({name, constant(item), true});
      }
      shape.other = kNone;
      sum.objects.push_back(std::move(shape));
    }
  }
  if (!strings.empty()) sum.strings = {{share(texts(strings)), 0, kNoBound}};
  return sets_.of(std::move(sum));
}

}  // namespace plimsoll::grammar
