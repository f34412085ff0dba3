// Filters on numbers, defaults and attributes.
#include <fmt/format.h>

#include <cmath>

#include "text/jinja/filters/filter_table.h"
#include "text/jinja/values/json_dump.h"
#include "text/jinja/values/operators.h"

namespace plimsoll::text::jinja {
namespace {

Value absolute(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("abs", args, {});
  if (!subject.is_number()) raise("bad operand type for abs(): '", type_name(subject), "'");
  if (subject.is(Kind::floating)) return Value::number(std::abs(subject.as_double()));
  return subject.as_int() < 0 ? unary(runtime, Op::negate, subject)
                              : Value::integer(subject.as_int());
}

Value attr(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("attr", args, {"name"}, 1);
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  if (!bound[0].is_string()) return undefined_element(subject, bound[0]);
  auto value = own_attribute(runtime, subject, bound.text(0));
  return value ? std::move(*value) : undefined_attribute(subject, bound.text(0));
}

Value default_to(Runtime&, const Value& subject, const Args& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  const bool replace = subject.is_undefined() || (bound.truthy(1) && !truthy(subject));
  return replace ? bound.get(0, Value::string({})) : subject;
}

std::optional<double> float_of(const Value& value) {
  if (value.is_number()) return value.as_double();
  if (value.is_string()) return parse_float(value.text());
  return std::nullopt;
}

Value to_float(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("float", args, {"default"});
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  const auto value = float_of(subject);
  return value ? Value::number(*value) : bound.get(0, Value::number(0.0));
}

Value to_int(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("int", args, {"default", "base"});
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  const Value fallback = bound.get(0, Value::integer(0));
  if (subject.is_string()) {
    const Int base = bound.integer(runtime, 1, 10);
    const bool possible = base == 0 || (base >= 2 && base <= 36);
    runtime.charge_characters(subject.text().size());
    if (const auto value =
            possible ? parse_int(subject.text(), static_cast<int>(base)) : std::nullopt) {
      return Value::integer(*value);
    }
    const auto number = parse_float(subject.text());
    return number && std::isfinite(*number) ? Value::integer(float_to_int(*number)) : fallback;
  }
  if (!subject.is_number()) return fallback;
  if (!subject.is(Kind::floating)) return Value::integer(subject.as_int());
  return std::isnan(subject.as_double()) ? fallback
                                         : Value::integer(float_to_int(subject.as_double()));
}

// Python's round(): halves to even, on the exact binary value.
double round_float(double value, Int digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -309) return std::copysign(0.0, value);
  if (digits >= 0) return *parse_float(fmt::format("{:.{}f}", value, static_cast<int>(digits)));
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Value round(Runtime& runtime, const Value& subject, const Args& args) {
  const Bound bound("round", args, {"precision", "method"});
  const std::string method = bound.has(1) ? str(runtime, bound[1]) : "common";
  if (method != "common" && method != "ceil" && method != "floor")
    raise("method must be common, ceil or floor");
  if (subject.is_undefined()) fail_undefined(runtime, subject);
  if (!subject.is_number()) raise("type ", type_name(subject), " doesn't define __round__ method");
  if (method == "common") {
    if (bound.has(0) && bound[0].is_none()) {
      return subject.is(Kind::floating)
                 ? Value::integer(float_to_int(std::nearbyint(subject.as_double())))
                 : subject;
    }
    const Int digits = bound.integer(runtime, 0, 0);
    if (subject.is(Kind::floating)) return Value::number(round_float(subject.as_double(), digits));
    if (digits >= 0) return Value::integer(subject.as_int());
    return Value::integer(float_to_int(round_float(subject.as_double(), digits)));
  }
  const Value unit =
      binary(runtime, Op::power, Value::integer(10), bound.get(0, Value::integer(0)));
  const double scaled = binary(runtime, Op::multiply, subject, unit).as_double();
  const Int whole = float_to_int(method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
  return binary(runtime, Op::divide, Value::integer(whole), unit);
}

constexpr NamedFilter kFilters[] = {
    {"abs", absolute},   {"attr", attr},  {"d", default_to}, {"default", default_to},
    {"float", to_float}, {"int", to_int}, {"round", round},  {"tojson", to_json},
};

}  // namespace

std::span<const NamedFilter> value_filters() {
  return kFilters;
}

}  // namespace plimsoll::text::jinja
