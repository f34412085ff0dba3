// Texts and numbers by a format specification.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

constexpr Int kMaxPrecision = 2000;  // digits of a float that may be asked for

// Pads to the width; `sign_length` leading bytes stay in front of = padding.
std::string pad(Runtime& runtime, std::string text, const FormatSpec& spec, char default_align,
                size_t sign_length) {
  const Int missing = spec.width - static_cast<Int>(count_code_points(text));
  if (missing <= 0) return text;
  runtime.check_size(missing, static_cast<Int>(spec.fill.size()));
  const char align = spec.align != 0 ? spec.align : default_align;
  const Int left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before;
  std::string after;
  for (Int i = 0; i < left; ++i) before += spec.fill;
  for (Int i = left; i < missing; ++i) after += spec.fill;
  runtime.charge_copy(text.size() + before.size() + after.size());
  if (align == '=') return text.insert(sign_length, before);
  return before + text + after;
}

enum class Sign : uint8_t { positive, negative };

// Joins sign and digits, of which the first `whole` come in groups.
std::string finish(Runtime& runtime, Sign negative, std::string digits, size_t whole,
                   const FormatSpec& spec, size_t group) {
  if (spec.grouping != 0) {
    for (size_t at = whole; at > group; at -= group) digits.insert(at - group, 1, spec.grouping);
  }
  const std::string sign = negative == Sign::negative ? "-"
                           : spec.sign == '-'         ? ""
                                                      : std::string(1, spec.sign);
  return pad(runtime, sign + digits, spec, '>', sign.size());
}

std::string finite_digits(double magnitude, const FormatSpec& spec) {
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  switch (spec.type | 0x20) {
    case 'e':
      return fmt::format("{:.{}e}", magnitude, precision);
    case 'f':
      return fmt::format("{:.{}f}", magnitude, precision);
    case 'g':
      return fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
    case '%':
      return fmt::format("{:.{}f}%", magnitude * 100, precision);
    default:
      break;
  }
  if (spec.precision < 0) return float_to_string(magnitude);
  const std::string text = fmt::format("{:.{}g}", magnitude, std::max(precision, 1));
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

Int read_digits(std::string_view text, size_t& at) {
  Int value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = std::min<Int>(value * 10 + (text[at++] - '0'), INT64_MAX);
  }
  return value;
}

std::string format_text(Runtime& runtime, std::string text, const FormatSpec& spec,
                        char default_align) {
  if (spec.precision >= 0) {
    size_t at = 0;
    for (Int i = 0; i < spec.precision && at < text.size(); ++i) next_character(text, at);
    text.resize(at);
  }
  return pad(runtime, std::move(text), spec, default_align, 0);
}

std::string format_int(Runtime& runtime, Int value, const FormatSpec& spec) {
  if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
  const bool negative = value < 0;
  const Int magnitude =
      negative ? unary(runtime, Op::negate, Value::integer(value)).as_int() : value;
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      break;
    default:
      digits = int_to_string(magnitude);
  }
  const size_t size = digits.size();
  const bool decimal = spec.type == 0 || spec.type == 'd';
  return finish(runtime, negative ? Sign::negative : Sign::positive, std::move(digits), size, spec,
                decimal ? 3 : 4);
}

std::string format_float(Runtime& runtime, double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) raise("the precision is too large");
  std::string text = std::isfinite(value) ? finite_digits(std::abs(value), spec)
                     : std::isnan(value)  ? "nan"
                                          : "inf";
  if (spec.type >= 'A' && spec.type <= 'Z') text = to_upper(text);
  const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool negative = std::signbit(value) && !std::isnan(value);
  return finish(runtime, negative ? Sign::negative : Sign::positive, std::move(text), whole, spec,
                3);
}

}  // namespace plimsoll::text::jinja
