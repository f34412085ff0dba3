// Methods of list, tuple, range, dict and float that the immutable sandbox leaves.
#include <algorithm>
#include <cmath>

#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

Value count(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("count", args, {""}, 1);
  Int found = 0;
  Cursor cursor(runtime, self);
  for (Value item; cursor.next(item);) found += equals(runtime, item, bound[0]);
  return Value::integer(found);
}

Value index(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("index", args, {"", "", ""}, 1);
  const Int length = static_cast<Int>(*length_of(self));
  const auto clip = [&](size_t argument, Int fallback) {
    Int at = bound.integer(runtime, argument, fallback);
    return at < 0 ? std::max<Int>(at + length, 0) : at;
  };
  const Int begin = clip(1, 0);
  const Int end = std::min(clip(2, length), length);
  Cursor cursor(runtime, self);
  Int at = 0;
  for (Value item; at < end && cursor.next(item); ++at) {
    if (at >= begin && equals(runtime, item, bound[0])) return Value::integer(at);
  }
  raise(repr(runtime, bound[0]), " is not in ", type_name(self));
}

Value copy(Runtime&, const Value& self, const Args& args) {
  const Bound bound("copy", args, {});
  return self;  // immutable
}

constexpr NamedMethod kSequenceMethods[] = {{"count", count}, {"index", index}};

template <ViewOf Part>
Value view(Runtime&, const Value& self, const Args& args) {
  const Bound bound("dict view", args, {});
  return {Kind::view, new View(self, Part)};
}

Value get(Runtime& runtime, const Value& self, const Args& args) {
  const Bound bound("get", args, {"", ""}, 1);
  const Value* found = self.as_dict().find(runtime, bound[0]);
  return found != nullptr ? *found : bound.get(1, Value::none());
}

constexpr NamedMethod kDictMethods[] = {{"get", get},
                                        {"items", view<ViewOf::items>},
                                        {"keys", view<ViewOf::keys>},
                                        {"values", view<ViewOf::values>},
                                        {"copy", copy}};

Value is_integer(Runtime&, const Value& self, const Args& args) {
  const Bound bound("is_integer", args, {});
  const double value = self.as_double();
  return Value::boolean(std::isfinite(value) && value == std::floor(value));
}

constexpr NamedMethod kFloatMethods[] = {{"is_integer", is_integer}};

}  // namespace

Method find_sequence_method(std::string_view name, bool list) {
  return list && name == "copy" ? copy : look_up(kSequenceMethods, name);
}
Method find_dict_method(std::string_view name) {
  return look_up(kDictMethods, name);
}
Method find_float_method(std::string_view name) {
  return look_up(kFloatMethods, name);
}

}  // namespace plimsoll::text::jinja
