#include "grammar/lowering.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/formats.h"
#include "grammar/patterns/regex.h"

namespace plimsoll::grammar {
namespace {

// Whether doubles hold not all whole numbers about it.
bool is_large(const Decimal& number) {
  return number.whole.size() >= 16;
}

}  // namespace

const OrderedJson* Lowering::find(const char* keyword) {
  const auto found = last_->find(keyword);
  if (found == last_->end()) return nullptr;
  keyword_ = keyword;
  return &*found;
}

void Lowering::wrong(std::string_view why) const {
  refuse(keyword_, schema_.pointer(*last_), why);
}

uint64_t Lowering::count(const OrderedJson& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (is_number(value)) {
    const Decimal number = decimal_of(value);
    if (!number.negative && number.fraction.empty() && number.whole.size() <= 15) {
      return std::stoull(number.whole);
    }
  }
  wrong("is no number of things");
}

Decimal Lowering::number(const OrderedJson& value) {
  if (!is_number(value)) wrong("is no number");
  return decimal_of(value);
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
  schema_.check_keywords(part);
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
    const auto restrict_to = [&](const Decimal& decimal, bool or_equal) {
      restrict(limit(decimal, or_equal));
      if (is_large(decimal)) restrict(without_large_fractions());
    };
    const auto* strict = find(exclusive);
    const bool flag = strict != nullptr && strict->is_boolean();
    if (const auto* value = find(keyword)) {
      restrict_to(number(*value), !(flag && strict->template get<bool>()));
    }
    if (strict != nullptr && !flag) {
      keyword_ = exclusive;
      restrict_to(number(*strict), false);
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
    try {
      restrict(multiples_of(divisor));
    } catch (const TooLarge&) {
      if (options_.strict) throw;
      own.numbers.loosened = true;
    }
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
    restrict(schema_.pattern(regex->get<std::string>()));
  }
  if (const auto* format = find("format")) {
    if (!format->is_string()) wrong("is no string");
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
  const auto* unique = find("uniqueItems");
  if (unique != nullptr && !unique->is_boolean()) wrong("is neither true nor false");
  if (unique != nullptr && *unique == true) {
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
  // Draft 3 has true or false in a property's schema.
  if (const auto* required = find("required"); required != nullptr && !required->is_boolean()) {
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
    const DfaPtr keys = schema_.pattern(regex);
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
    if (is_number(value)) {
      const Decimal number = decimal_of(value);
      NumberSet one = intersection_of(at_least(number, true), at_most(number, true));
      if (is_large(number)) one = intersection_of(one, without_large_fractions());
      sum.numbers = union_of(sum.numbers, one);
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
