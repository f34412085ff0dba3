// Attribute and item access as the immutable sandbox allows it.
#include <algorithm>
#include <array>

#include "text/jinja/filters/filters.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

constexpr std::string_view kListChanges[] = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};
constexpr std::string_view kDictChanges[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <typename Names>
bool among(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

bool is_unsafe(const Value& object, std::string_view name) {
  if (name.starts_with("__")) return true;
  if (object.is(Kind::list)) return among(kListChanges, name);
  if (object.is(Kind::dict)) return among(kDictChanges, name);
  return false;
}

// Attributes that are no methods.
std::optional<Value> data_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::object:
      return object.object()->attribute(runtime, name);
    case Kind::tuple:
      if (object.as_sequence().is_group && name == "grouper") return object.items()[0];
      if (object.as_sequence().is_group && name == "list") return object.items()[1];
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

Method find_method(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case Kind::string:
      return find_string_method(name);
    case Kind::list:
    case Kind::tuple:
    case Kind::range:
      return find_sequence_method(name, self.is(Kind::list));
    case Kind::dict:
      return find_dict_method(name);
    case Kind::floating:
      return find_float_method(name);
    default:
      return nullptr;
  }
}

std::optional<Value> own_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (is_unsafe(object, name)) return undefined_unsafe(object, name);
  if (const Method method = find_method(object, name)) {
    return make_object(new Function(
        std::string(name),
        [object, method](Runtime& rt, const Args& args) { return method(rt, object, args); }));
  }
  return data_attribute(runtime, object, name);
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (object.is_undefined()) fail_undefined(runtime, object);
  if (object.is(Kind::dict) && !is_unsafe(object, name) &&
      find_dict_method(name) == nullptr) {  // the usual case
    const Value* found = object.as_dict().find(name);
    return found != nullptr ? *found : undefined_attribute(object, name);
  }
  if (auto value = own_attribute(runtime, object, name)) return std::move(*value);
  return undefined_attribute(object, name);
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  if (auto item = subscript(runtime, object, key)) return std::move(*item);
  if (key.is_string()) {
    if (auto value = own_attribute(runtime, object, key.text())) return std::move(*value);
  }
  return undefined_element(object, key);
}

Value get_path(Runtime& runtime, const Value& object, const Value& path) {
  if (path.is_none()) return object;
  if (!path.is_string()) return get_item(runtime, object, path);
  Value value = object;
  std::string_view rest = path.text();
  while (true) {
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool digits =
        !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    runtime.charge(1);
    value =
        get_item(runtime, value,
                 digits ? Value::integer(*parse_int(part, 10)) : Value::string(std::string(part)));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is(Kind::object) && value.object()->callable());
}

Value call_value(Runtime& runtime, const Value& callee, const Args& args) {
  if (callee.is_undefined()) fail_undefined(runtime, callee);
  if (!callee.is(Kind::object)) raise("'", type_name(callee), "' object is not callable");
  return callee.object()->call(runtime, args);
}

}  // namespace plimsoll::text::jinja
