// The tests behind `is`.
#include <unordered_map>

#include "text/jinja/filters/filters.h"
#include "text/jinja/filters/methods.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

using Holds = bool (*)(Runtime&, const Value&, const Args&);

void no_arguments(const Args& args) {
  static_cast<void>(Bound("test", args, {}));
}

template <bool (*Check)(const Value&)>
bool simple(Runtime&, const Value& value, const Args& args) {
  no_arguments(args);
  return Check(value);
}

bool is_defined(const Value& value) {
  return !value.is_undefined();
}
bool is_undefined(const Value& value) {
  return value.is_undefined();
}
bool is_none(const Value& value) {
  return value.is_none();
}
bool is_boolean(const Value& value) {
  return value.is(Kind::boolean);
}
bool is_true(const Value& value) {
  return value.is(Kind::boolean) && value.as_bool();
}
bool is_false(const Value& value) {
  return value.is(Kind::boolean) && !value.as_bool();
}
bool is_integer(const Value& value) {
  return value.is(Kind::integer);
}
bool is_float(const Value& value) {
  return value.is(Kind::floating);
}
bool is_number(const Value& value) {
  return value.is_number();
}
bool is_string(const Value& value) {
  return value.is_string();
}
bool is_mapping(const Value& value) {
  return value.is(Kind::dict);
}
bool is_iterable(const Value& value) {
  return Cursor::iterable(value);
}
bool is_sequence(const Value& value) {
  return length_of(value).has_value() && !value.is(Kind::view);
}

template <Op Operation>
bool compared(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound("test", args, {"other"}, 1);
  return compare(runtime, Operation, value, bound[0]);
}

bool remainder_is(Runtime& runtime, const Value& value, const Value& by, Int expected) {
  return equals(runtime, binary(runtime, Op::modulo, value, by), Value::integer(expected));
}
bool odd(Runtime& runtime, const Value& value, const Args& args) {
  no_arguments(args);
  return remainder_is(runtime, value, Value::integer(2), 1);
}
bool even(Runtime& runtime, const Value& value, const Args& args) {
  no_arguments(args);
  return remainder_is(runtime, value, Value::integer(2), 0);
}
bool divisibleby(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound("divisibleby", args, {"num"}, 1);
  return remainder_is(runtime, value, bound[0], 0);
}

bool sameas(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound("sameas", args, {"other"}, 1);
  if (value.kind() != bound[0].kind()) return false;
  if (value.kind() >= Kind::string) return value.object() == bound[0].object();
  return equals(runtime, value, bound[0]);
}

bool cased(Runtime& runtime, const Value& value, const Args& args, std::string_view method) {
  no_arguments(args);
  const Value text = Value::string(str(runtime, value));
  return find_method(text, method)(runtime, text, {}).as_bool();
}
bool lower(Runtime& runtime, const Value& value, const Args& args) {
  return cased(runtime, value, args, "islower");
}
bool upper(Runtime& runtime, const Value& value, const Args& args) {
  return cased(runtime, value, args, "isupper");
}

bool callable(Runtime&, const Value& value, const Args& args) {
  no_arguments(args);
  return is_callable(value);
}
bool in(Runtime& runtime, const Value& value, const Args& args) {
  const Bound bound("in", args, {"seq"}, 1);
  return contains(runtime, bound[0], value);
}

}  // namespace

const Test* find_test(std::string_view name) {
  static const std::unordered_map<std::string_view, Test> tests = {
      {"odd", {odd}},
      {"even", {even}},
      {"divisibleby", {divisibleby}},
      {"defined", {simple<is_defined>}},
      {"undefined", {simple<is_undefined>}},
      {"none", {simple<is_none>}},
      {"boolean", {simple<is_boolean>}},
      {"false", {simple<is_false>}},
      {"true", {simple<is_true>}},
      {"integer", {simple<is_integer>}},
      {"float", {simple<is_float>}},
      {"lower", {lower}},
      {"upper", {upper}},
      {"string", {simple<is_string>}},
      {"mapping", {simple<is_mapping>}},
      {"number", {simple<is_number>}},
      {"sequence", {simple<is_sequence>}},
      {"iterable", {simple<is_iterable>}},
      {"callable", {callable}},
      {"sameas", {sameas}},
      {"in", {in}},
      {"==", {compared<Op::equal>}},
      {"eq", {compared<Op::equal>}},
      {"equalto", {compared<Op::equal>}},
      {"!=", {compared<Op::not_equal>}},
      {"ne", {compared<Op::not_equal>}},
      {">", {compared<Op::greater>}},
      {"gt", {compared<Op::greater>}},
      {"greaterthan", {compared<Op::greater>}},
      {">=", {compared<Op::greater_equal>}},
      {"ge", {compared<Op::greater_equal>}},
      {"<", {compared<Op::less>}},
      {"lt", {compared<Op::less>}},
      {"lessthan", {compared<Op::less>}},
      {"<=", {compared<Op::less_equal>}},
      {"le", {compared<Op::less_equal>}},
  };
  const auto at = tests.find(name);
  return at == tests.end() ? nullptr : &at->second;
}

}  // namespace plimsoll::text::jinja
