// The built-in filters, tests and methods.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/values/runtime.h"
#include "text/jinja/values/value.h"

namespace plimsoll::text::jinja {

struct Filter {
  Value (*apply)(Runtime& runtime, const Value& subject, const Args& args);
};
struct Test {
  bool (*holds)(Runtime& runtime, const Value& subject, const Args& args);
};

/// The filter or test of a name; null when there is none.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);

/// A method of str, list, tuple, range, dict or float.
using Method = Value (*)(Runtime& runtime, const Value& self, const Args& args);
Method find_method(const Value& self, std::string_view name);

/// `object.name` in a template: attributes first, then items. The sandbox hides what could change
/// or escape.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// `object[key]` in a template: items first, then attributes.
Value get_item(Runtime& runtime, const Value& object, const Value& key);
/// The attribute alone, without looking at items; undefined when the sandbox hides it.
std::optional<Value> own_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// Follows "a.b.0" as filters with `attribute=` do.
Value get_path(Runtime& runtime, const Value& object, const Value& path);

/// Calls any callable value.
Value call_value(Runtime& runtime, const Value& callee, const Args& args);
bool is_callable(const Value& value);

/// The global of a name (range, dict, namespace, cycler, joiner, raise_exception, strftime_now);
/// missing when there is none.
Value find_global(std::string_view name);

}  // namespace plimsoll::text::jinja
