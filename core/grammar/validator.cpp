// Validation of finished answers: keywords one by one, over the schema as it was parsed.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "base/error.h"
#include "grammar/decimal.h"
#include "grammar/document.h"
#include "grammar/formats.h"
#include "grammar/patterns/regex.h"
#include "grammar/shapes.h"

namespace plimsoll::grammar {
namespace {

constexpr int kMaxSteps = 1000;
constexpr int64_t kValidation = 200'000'000;
constexpr size_t kMaxAnswerKeys = 100'000;
constexpr size_t kMaxKnown = 100'000;  // values beside schemas whose outcome is kept

// Names and places of items that keywords have looked at.
struct Seen {
  std::set<std::string, std::less<>> names;
  std::set<size_t> places;
  void add(const Seen& other) {
    names.insert(other.names.begin(), other.names.end());
    places.insert(other.places.begin(), other.places.end());
  }
};

class Check {
 public:
  explicit Check(const Schema& schema) : schema_(schema) {}

  bool valid(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    if (schema.is_boolean()) return schema.get<bool>() || wrong("false", "nothing is valid here");
    if (++depth_ > kMaxSteps) throw TooLarge("the schema leads to itself");
    WorkLimit::spend(static_cast<int64_t>(schema.size()) + 10);
    const bool alone = schema_.draft <= Draft::d7 && schema.contains("$ref");
    const bool ok = references(schema, value, seen) &&
                    (alone || (scalars(schema, value) && strings(schema, value) &&
                               arrays(schema, value, seen) && objects(schema, value, seen) &&
                               combinations(schema, value, seen) && rest(schema, value, seen)));
    --depth_;
    return ok;
  }

  std::string problem;

 private:
  // Keeps the first thing wrong, unless an alternative is only tried.
  bool wrong(std::string_view keyword, std::string_view why) {
    if (trying_ == 0 && problem.empty()) {
      problem = fmt::format("{} at \"{}\": {}", keyword, fmt::join(path_, ""), why);
    }
    return false;
  }
  bool tried(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    ++trying_;
    const int depth = depth_;
    Seen own;
    const bool ok = valid(schema, value, own);
    depth_ = depth;
    --trying_;
    if (ok) seen.add(own);
    return ok;
  }
  bool inner(const OrderedJson& schema, const OrderedJson& value, std::string step) {
    path_.push_back(std::move(step));
    Seen own;
    const bool ok = valid(schema, value, own);
    path_.pop_back();
    return ok;
  }
  static const OrderedJson* find(const OrderedJson& schema, const char* keyword) {
    const auto found = schema.find(keyword);
    return found == schema.end() ? nullptr : &*found;
  }
  static uint64_t length(const OrderedJson& text) {
    return code_points_of(text.get_ref<const std::string&>()).size();
  }
  /// How a count compares with what a keyword says; with `otherwise` where it is not there.
  static std::strong_ordering counted(uint64_t count, const OrderedJson* bound,
                                      uint64_t otherwise) {
    if (bound == nullptr) return count <=> otherwise;
    return compare(decimal_of(OrderedJson(count)), decimal_of(*bound));
  }

  bool references(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    for (const char* keyword : {"$ref", "$recursiveRef", "$dynamicRef"}) {
      if (find(schema, keyword) == nullptr) continue;
      if (!refers(schema_.target(schema, keyword), value, seen)) return false;
    }
    return true;
  }
  // Several references may lead to a value by one schema, which is then looked at once.
  bool refers(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    const auto known = known_.find({&schema, &value});
    // What is wrong is looked for anew where it is to be said.
    const bool usable = known != known_.end() && (known->second.first || trying_ > 0);
    std::pair<bool, Seen> found;
    if (!usable) found.first = valid(schema, value, found.second);
    const auto& [ok, own] = usable ? known->second : found;
    seen.add(own);
    const bool result = ok;
    if (!usable && known_.size() < kMaxKnown) known_[{&schema, &value}] = std::move(found);
    return result;
  }

  bool has_type(const std::string& type, const OrderedJson& value) const {
    if (type == "integer") {
      if (!is_number(value)) return false;
      return schema_.draft > Draft::d4
                 ? decimal_of(value).fraction.empty()
                 : exact_text_of(value).find_first_of(".eE") == std::string::npos;
    }
    return (type == "null" && value.is_null()) || (type == "boolean" && value.is_boolean()) ||
           (type == "number" && is_number(value)) || (type == "string" && value.is_string()) ||
           (type == "array" && value.is_array()) || (type == "object" && value.is_object()) ||
           (type == "any" && schema_.draft == Draft::d3);
  }

  bool scalars(const OrderedJson& schema, const OrderedJson& value) {
    if (const auto* type = find(schema, "type")) {
      const bool ok =
          type->is_string()
              ? has_type(type->get<std::string>(), value)
              : type->is_array() && std::ranges::any_of(*type, [&](const auto& t) {
                  return t.is_string() && has_type(t.template get<std::string>(), value);
                });
      if (!ok) return wrong("type", fmt::format("is no {}", type->dump()));
    }
    if (const auto* list = find(schema, "enum"); list != nullptr && list->is_array()) {
      if (std::ranges::none_of(*list, [&](const auto& v) { return equal(v, value); })) {
        return wrong("enum", "is none of the values");
      }
    }
    if (const auto* constant = find(schema, "const"); constant && !equal(*constant, value)) {
      return wrong("const", "is another value");
    }
    return !is_number(value) || numbers(schema, value);
  }

  bool numbers(const OrderedJson& schema, const OrderedJson& value) {
    const Decimal number = decimal_of(value);
    const auto limit = [&](const char* keyword, const char* exclusive, int sign) {
      const auto* strict = find(schema, exclusive);
      const bool flag = strict != nullptr && *strict == true;
      const auto beyond = [&](const OrderedJson& bound, bool or_equal) {
        const auto order = compare(number, decimal_of(bound));
        return (sign > 0 ? order > 0 : order < 0) || (or_equal && order == 0);
      };
      if (const auto* bound = find(schema, keyword); bound != nullptr && beyond(*bound, flag)) {
        return wrong(keyword, "is out of bounds");
      }
      if (strict != nullptr && is_number(*strict) && beyond(*strict, true)) {
        return wrong(exclusive, "is out of bounds");
      }
      return true;
    };
    if (!limit("maximum", "exclusiveMaximum", 1) || !limit("minimum", "exclusiveMinimum", -1)) {
      return false;
    }
    const auto* divisor = find(schema, schema_.draft == Draft::d3 ? "divisibleBy" : "multipleOf");
    return divisor == nullptr || is_multiple(number, decimal_of(*divisor)) ||
           wrong("multipleOf", "is no multiple");
  }

  bool strings(const OrderedJson& schema, const OrderedJson& value) {
    if (!value.is_string()) return true;
    const auto& text = value.get_ref<const std::string&>();
    if (counted(length(value), find(schema, "minLength"), 0) < 0) {
      return wrong("minLength", "is too short");
    }
    if (counted(length(value), find(schema, "maxLength"), kNoBound) > 0) {
      return wrong("maxLength", "is too long");
    }
    if (const auto* regex = find(schema, "pattern"); regex != nullptr && regex->is_string()) {
      if (!schema_.pattern(regex->get<std::string>())->accepts(text))
        return wrong("pattern", "is not matched");
    }
    if (const auto* format = find(schema, "format"); format != nullptr && format->is_string()) {
      const DfaPtr dfa = format_dfa(format->get<std::string>());
      if (dfa && !dfa->accepts(text))
        return wrong("format", fmt::format("is no {}", format->dump()));
    }
    return true;
  }

  bool arrays(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    if (!value.is_array()) return true;
    const auto* prefix = find(schema, "prefixItems");
    const auto* others = find(schema, "items");
    const char* name = "items";
    if (prefix == nullptr && others != nullptr && others->is_array()) {
      prefix = others;
      others = find(schema, name = "additionalItems");
    }
    const size_t first = prefix != nullptr ? prefix->size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      const auto* item = i < first ? &(*prefix)[i] : others;
      if (item == nullptr) continue;
      seen.places.insert(i);
      if (!inner(*item, value[i], fmt::format("/{}", i))) return wrong(name, "has a wrong item");
    }
    if (counted(value.size(), find(schema, "minItems"), 0) < 0) {
      return wrong("minItems", "has too few items");
    }
    if (counted(value.size(), find(schema, "maxItems"), kNoBound) > 0) {
      return wrong("maxItems", "has too many items");
    }
    if (const auto* unique = find(schema, "uniqueItems"); unique != nullptr && *unique == true) {
      for (size_t i = 0; i < value.size(); ++i) {
        WorkLimit::spend(static_cast<int64_t>(i));
        for (size_t j = 0; j < i; ++j) {
          if (equal(value[i], value[j])) return wrong("uniqueItems", "has an item twice");
        }
      }
    }
    return contains(schema, value, seen);
  }

  bool contains(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    const auto* item = find(schema, "contains");
    if (item == nullptr || schema_.draft < Draft::d6) return true;
    size_t met = 0;
    for (size_t i = 0; i < value.size(); ++i) {
      Seen own;
      if (!tried(*item, value[i], own)) continue;
      ++met;
      if (schema_.draft >= Draft::d2020) seen.places.insert(i);
    }
    const bool counts = schema_.draft >= Draft::d2019;
    const auto* least = counts ? find(schema, "minContains") : nullptr;
    const auto* most = counts ? find(schema, "maxContains") : nullptr;
    if (counted(met, least, 1) < 0) return wrong("contains", "has too few such items");
    return counted(met, most, kNoBound) <= 0 || wrong("maxContains", "has too many such items");
  }

  bool objects(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    if (!value.is_object()) return true;
    if (const auto* required = find(schema, "required");
        required && !has_all(*required, value, "required"))
      return false;
    if (schema_.draft == Draft::d3 && !has_required(schema, value)) return false;
    if (counted(value.size(), find(schema, "minProperties"), 0) < 0) {
      return wrong("minProperties", "has too few properties");
    }
    if (counted(value.size(), find(schema, "maxProperties"), kNoBound) > 0) {
      return wrong("maxProperties", "has too many properties");
    }
    const auto* names = schema_.draft >= Draft::d6 ? find(schema, "propertyNames") : nullptr;
    for (const auto& [name, member] : value.items()) {
      if (names != nullptr && !inner(*names, names_.emplace_back(name), "/" + pointer_step(name))) {
        return wrong("propertyNames", "has a wrong name");
      }
      if (!property(schema, name, member, seen)) return false;
    }
    return dependencies(schema, value, seen);
  }

  /// Whether an object has the member of a name, or those of a list of names.
  bool has_all(const OrderedJson& names, const OrderedJson& value, const char* keyword) {
    if (names.is_array())
      return std::ranges::all_of(
          names, [&](const OrderedJson& name) { return has_all(name, value, keyword); });
    return !names.is_string() || value.contains(names.get_ref<const std::string&>()) ||
           wrong(keyword, fmt::format("lacks {}", names.dump()));
  }

  /// Draft 3 says in a property's own schema that it is required.
  bool has_required(const OrderedJson& schema, const OrderedJson& value) {
    const auto* properties = find(schema, "properties");
    if (properties == nullptr || !properties->is_object()) return true;
    for (const auto& [name, own] : properties->items()) {
      const bool required = own.is_object() && own.value("required", OrderedJson()) == true;
      if (required && !has_all(name, value, "required")) return false;
    }
    return true;
  }

  bool property(const OrderedJson& schema, const std::string& name, const OrderedJson& member,
                Seen& seen) {
    bool known = false;
    const auto* properties = find(schema, "properties");
    if (properties != nullptr && properties->is_object() && properties->contains(name)) {
      known = true;
      if (!inner((*properties)[name], member, "/" + pointer_step(name))) return false;
    }
    if (const auto* patterns = find(schema, "patternProperties");
        patterns && patterns->is_object()) {
      for (const auto& [regex, own] : patterns->items()) {
        if (!schema_.pattern(regex)->accepts(name)) continue;
        known = true;
        if (!inner(own, member, "/" + pointer_step(name))) return false;
      }
    }
    const auto* other = find(schema, "additionalProperties");
    if (!known && other != nullptr) {
      known = true;
      if (*other == false)
        return wrong("additionalProperties", fmt::format("\"{}\" is none", name));
      if (!inner(*other, member, "/" + pointer_step(name))) return false;
    }
    if (known) seen.names.insert(name);
    return true;
  }

  bool dependencies(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    for (const char* keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
      const auto* map = find(schema, keyword);
      if (map == nullptr || !map->is_object()) continue;
      for (const auto& [name, then] : map->items()) {
        if (!value.contains(name)) continue;
        const bool names = then.is_array() || (then.is_string() && schema_.draft == Draft::d3);
        if (names ? !has_all(then, value, keyword) : !valid(then, value, seen)) return false;
      }
    }
    return true;
  }

  bool combinations(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    if (const auto* list = find(schema, "allOf")) {
      for (const auto& part : *list) {
        if (!valid(part, value, seen)) return false;
      }
    }
    for (const char* keyword : {"anyOf", "oneOf"}) {
      const auto* list = find(schema, keyword);
      if (list == nullptr) continue;
      size_t met = 0;
      for (const auto& part : *list) met += tried(part, value, seen) ? 1 : 0;
      if (met == 0) return wrong(keyword, "no alternative fits");
      if (met > 1 && keyword[0] == 'o') return wrong(keyword, "more than one alternative fits");
    }
    Seen none;
    if (const auto* part = find(schema, "not"); part != nullptr && tried(*part, value, none)) {
      return wrong("not", "is what it must not be");
    }
    const auto* condition = schema_.draft >= Draft::d7 ? find(schema, "if") : nullptr;
    if (condition == nullptr) return true;
    const auto* then = find(schema, tried(*condition, value, seen) ? "then" : "else");
    return then == nullptr || valid(*then, value, seen);
  }

  bool rest(const OrderedJson& schema, const OrderedJson& value, Seen& seen) {
    if (schema_.draft < Draft::d2019) return true;
    const auto* names = value.is_object() ? find(schema, "unevaluatedProperties") : nullptr;
    if (names != nullptr) {
      for (const auto& [name, member] : value.items()) {
        if (!seen.names.insert(name).second) continue;
        if (!inner(*names, member, "/" + pointer_step(name))) return false;
      }
    }
    const auto* items = value.is_array() ? find(schema, "unevaluatedItems") : nullptr;
    if (items == nullptr) return true;
    for (size_t i = 0; i < value.size(); ++i) {
      if (!seen.places.insert(i).second) continue;
      if (!inner(*items, value[i], fmt::format("/{}", i))) return false;
    }
    return true;
  }

  const Schema& schema_;
  std::vector<std::string> path_;
  std::map<std::pair<const OrderedJson*, const OrderedJson*>, std::pair<bool, Seen>> known_;
  std::deque<OrderedJson> names_;  // keys as values, each at a place of its own
  int depth_ = 0;
  int trying_ = 0;
};

}  // namespace

JsonSchema::JsonSchema(std::string_view text) : schema_(std::make_shared<const Schema>(text)) {}

std::string JsonSchema::refuse(std::string_view answer) const {
  OrderedJson value;
  try {
    value = parse_json<OrderedJson>(
        answer, {.max_depth = 1000, .max_keys = kMaxAnswerKeys, .number_texts = true});
  } catch (const JsonError& error) {
    return fmt::format("line {}, column {}: {}", error.line, error.column, error.what());
  }
  const WorkLimit limit(kValidation);
  Check check(*schema_);
  try {
    Seen seen;
    return check.valid(schema_->root, value, seen) ? "" : check.problem;
  } catch (const std::runtime_error& error) {
    return fmt::format("cannot be validated: {}", error.what());
  } catch (const OrderedJson::exception& error) {
    return fmt::format("cannot be validated: {}", error.what());
  }
}

}  // namespace plimsoll::grammar
