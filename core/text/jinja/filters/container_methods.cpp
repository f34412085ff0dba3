// Methods of list, tuple, range, dict, int and float that the immutable sandbox leaves.
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

Value fromkeys(Runtime& runtime, const Value&, const Args& args) {
  const Bound bound("fromkeys", args, {"", ""}, 1);
  auto [value, dict] = new_dict();
  Cursor cursor(runtime, bound[0]);
  for (Value key; cursor.next(key);) dict->set(runtime, key, bound.get(1, Value::none()));
  return value;
}

constexpr NamedMethod kDictMethods[] = {{"get", get},
                                        {"items", view<ViewOf::items>},
                                        {"keys", view<ViewOf::keys>},
                                        {"values", view<ViewOf::values>},
                                        {"copy", copy},
                                        {"fromkeys", fromkeys}};

Value bit_length(Runtime&, const Value& self, const Args& args) {
  const Bound bound("bit_length", args, {});
  Int rest = self.as_int();
  Int bits = 0;
  for (; rest != 0; rest /= 2) ++bits;
  return Value::integer(bits);
}
Value bit_count(Runtime&, const Value& self, const Args& args) {
  const Bound bound("bit_count", args, {});
  Int bits = 0;
  for (Int rest = self.as_int(); rest != 0; rest /= 2) bits += rest % 2 != 0;
  return Value::integer(bits);
}
Value conjugate(Runtime&, const Value& self, const Args& args) {
  const Bound bound("conjugate", args, {});
  return self.is(Kind::floating) ? self : Value::integer(self.as_int());
}
Value as_integer_ratio(Runtime&, const Value& self, const Args& args) {
  const Bound bound("as_integer_ratio", args, {});
  if (!self.is(Kind::floating))
    return Value::tuple({Value::integer(self.as_int()), Value::integer(1)});
  int exponent = 0;
  double fraction = std::frexp(self.as_double(), &exponent);
  if (!std::isfinite(fraction))
    raise("cannot convert ", float_to_string(fraction), " to integer ratio");
  for (; fraction != std::floor(fraction); --exponent) fraction *= 2;
  if (exponent > 60 || exponent < -120) raise("an integer is too large (more than 127 bits)");
  const Int numerator = static_cast<Int>(fraction) * (exponent > 0 ? Int{1} << exponent : 1);
  return Value::tuple(
      {Value::integer(numerator), Value::integer(exponent < 0 ? Int{1} << -exponent : 1)});
}
Value is_integer(Runtime&, const Value& self, const Args& args) {
  const Bound bound("is_integer", args, {});
  const double value = self.as_double();
  return Value::boolean(std::isfinite(value) && value == std::floor(value));
}

constexpr NamedMethod kIntMethods[] = {{"bit_length", bit_length},
                                       {"bit_count", bit_count},
                                       {"conjugate", conjugate},
                                       {"as_integer_ratio", as_integer_ratio}};
constexpr NamedMethod kFloatMethods[] = {
    {"is_integer", is_integer}, {"conjugate", conjugate}, {"as_integer_ratio", as_integer_ratio}};

}  // namespace

Method find_sequence_method(std::string_view name, bool list) {
  return list && name == "copy" ? copy : look_up(kSequenceMethods, name);
}
Method find_dict_method(std::string_view name) {
  return look_up(kDictMethods, name);
}
Method find_int_method(std::string_view name) {
  return look_up(kIntMethods, name);
}
Method find_float_method(std::string_view name) {
  return look_up(kFloatMethods, name);
}

}  // namespace plimsoll::text::jinja
