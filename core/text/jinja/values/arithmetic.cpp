// Arithmetic on numbers, concatenation and repetition of sequences.
#include <cmath>
#include <limits>

#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/runtime.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

std::string_view sign_of(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::multiply:
      return "*";
    case Op::divide:
      return "/";
    case Op::floor_divide:
      return "//";
    case Op::modulo:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void fail_operands(Op op, const Value& left, const Value& right) {
  raise("unsupported operand type(s) for ", sign_of(op), ": '", type_name(left), "' and '",
        type_name(right), "'");
}

[[noreturn]] void fail_overflow() {
  raise("an integer is too large (more than 127 bits)");
}

double floor_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  const double rest = floor_modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Int int_power(Int base, Int exponent) {
  Int result = 1;
  while (exponent > 0) {
    if (exponent & 1) {
      if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
    if (base == 0 || base == 1) return exponent > 0 ? base * result : result;
  }
  return result;
}

Value float_arithmetic(Op op, double a, double b) {
  if (b == 0 && op != Op::add && op != Op::subtract && op != Op::multiply && op != Op::power) {
    raise(op == Op::divide   ? "float division by zero"
          : op == Op::modulo ? "float modulo"
                             : "float floor division by zero");
  }
  switch (op) {
    case Op::add:
      return Value::number(a + b);
    case Op::subtract:
      return Value::number(a - b);
    case Op::multiply:
      return Value::number(a * b);
    case Op::divide:
      return Value::number(a / b);
    case Op::floor_divide:
      return Value::number(floor_divide(a, b));
    case Op::modulo:
      return Value::number(floor_modulo(a, b));
    default:
      break;
  }
  if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) raise("complex numbers are not supported");
  const double power = std::pow(a, b);
  if (std::isinf(power) && std::isfinite(a) && std::isfinite(b))
    raise("Numerical result out of range");
  return Value::number(power);
}

Value int_arithmetic(Op op, Int a, Int b) {
  Int result = 0;
  switch (op) {
    case Op::add:
      if (__builtin_add_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Op::subtract:
      if (__builtin_sub_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Op::multiply:
      if (__builtin_mul_overflow(a, b, &result)) fail_overflow();
      return Value::integer(result);
    case Op::power:
      if (b < 0) return float_arithmetic(op, static_cast<double>(a), static_cast<double>(b));
      return Value::integer(int_power(a, b));
    default:
      break;
  }
  if (b == 0) {
    raise(op == Op::divide   ? "division by zero"
          : op == Op::modulo ? "integer modulo by zero"
                             : "integer division or modulo by zero");
  }
  if (op == Op::divide) {
    return Value::number(
        static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b)));
  }
  if (b == -1) return op == Op::modulo ? Value::integer(0) : int_arithmetic(Op::subtract, 0, a);
  const Int rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);
  if (op == Op::modulo) return Value::integer(adjust ? rest + b : rest);
  return Value::integer(a / b - (adjust ? 1 : 0));
}

Value concatenate(Runtime& runtime, const Value& left, const Value& right) {
  if (left.is_string()) {
    const bool markup = left.is_markup() || right.is_markup();
    const auto part = [&](const Value& value) {
      return markup && !value.is_markup() ? escape_html(value.text()) : value.text();
    };
    runtime.charge_copy(left.text().size() + right.text().size());
    if (!markup) {
      std::string joined;
      joined.reserve(left.text().size() + right.text().size());
      joined.append(left.text()).append(right.text());
      return Value::string(std::move(joined));
    }
    std::string joined = part(left) + part(right);
    runtime.charge_copy(joined.size());
    return Value::markup(std::move(joined));
  }
  const auto& a = left.items();
  const auto& b = right.items();
  runtime.check_elements(static_cast<Int>(a.size()) + static_cast<Int>(b.size()));
  std::vector<Value> joined;
  joined.reserve(a.size() + b.size());
  joined.insert(joined.end(), a.begin(), a.end());
  joined.insert(joined.end(), b.begin(), b.end());
  return left.is(Kind::list) ? Value::list(std::move(joined)) : Value::tuple(std::move(joined));
}

Value repeat(Runtime& runtime, const Value& sequence, Int count) {
  count = std::max<Int>(count, 0);
  if (sequence.is_string()) {
    const std::string& text = sequence.text();
    runtime.check_size(count, static_cast<Int>(text.size()));
    std::string repeated;
    if (!text.empty()) {
      runtime.charge_copy(text.size() * static_cast<size_t>(count));
      repeated.reserve(text.size() * static_cast<size_t>(count));
      for (Int i = 0; i < count; ++i) repeated += text;
    }
    return Value::string_like(sequence, std::move(repeated));
  }
  const auto& items = sequence.items();
  if (!items.empty())
    runtime.check_elements(std::min<Int>(count, Int{1} << 62) * static_cast<Int>(items.size()));
  std::vector<Value> repeated;
  for (Int i = 0; i < count && !items.empty(); ++i)
    repeated.insert(repeated.end(), items.begin(), items.end());
  return sequence.is(Kind::list) ? Value::list(std::move(repeated))
                                 : Value::tuple(std::move(repeated));
}

bool repeatable(const Value& value) {
  return value.is_string() || value.is_sequence();
}

[[noreturn]] void fail_add(const Value& left, const Value& right) {
  if (left.is_string()) raise("can only concatenate str (not \"", type_name(right), "\") to str");
  if (left.is_sequence()) {
    raise("can only concatenate ", type_name(left), " (not \"", type_name(right), "\") to ",
          type_name(left));
  }
  fail_operands(Op::add, left, right);
}

}  // namespace

Value binary(Runtime& runtime, Op op, const Value& left, const Value& right) {
  if (left.is_string() && op == Op::modulo) return format_percent(runtime, left, right);
  if (left.is_undefined()) fail_undefined(runtime, left);
  if (right.is_undefined()) fail_undefined(runtime, right);
  if (left.is_number() && right.is_number()) {
    if (left.is(Kind::floating) || right.is(Kind::floating)) {
      return float_arithmetic(op, left.as_double(), right.as_double());
    }
    return int_arithmetic(op, left.as_int(), right.as_int());
  }
  if (op == Op::add) {
    if ((left.is_string() || left.is_sequence()) && left.kind() == right.kind()) {
      return concatenate(runtime, left, right);
    }
    fail_add(left, right);
  }
  if (op == Op::multiply) {
    if (repeatable(left) && as_index(right)) return repeat(runtime, left, *as_index(right));
    if (repeatable(right) && as_index(left)) return repeat(runtime, right, *as_index(left));
    if (repeatable(left) || repeatable(right)) {
      raise("can't multiply sequence by non-int of type '",
            type_name(repeatable(left) ? right : left), "'");
    }
  }
  fail_operands(op, left, right);
}

Value unary(Runtime& runtime, Op op, const Value& operand) {
  if (operand.is_undefined()) fail_undefined(runtime, operand);
  if (!operand.is_number()) {
    raise("bad operand type for unary ", op == Op::plus ? "+" : "-", ": '", type_name(operand),
          "'");
  }
  if (operand.is(Kind::floating))
    return Value::number(op == Op::plus ? operand.as_double() : -operand.as_double());
  if (op == Op::plus) return Value::integer(operand.as_int());
  return int_arithmetic(Op::subtract, 0, operand.as_int());
}

std::optional<Int> as_index(const Value& value) {
  if (value.is(Kind::integer) || value.is(Kind::boolean)) return value.as_int();
  return std::nullopt;
}

Int float_to_int(double value) {
  if (std::isnan(value)) raise("cannot convert float NaN to integer");
  if (std::isinf(value)) raise("cannot convert float infinity to integer");
  if (std::abs(value) >= 0x1p127) fail_overflow();
  return static_cast<Int>(value);
}

}  // namespace plimsoll::text::jinja
