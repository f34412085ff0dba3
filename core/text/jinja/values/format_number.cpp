// Numbers and padding of format specifications.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/values/format.h"
#include "text/jinja/values/operators.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

constexpr Int kMaxPrecision = 2000;  // digits of a float that may be asked for

std::string group_digits(const std::string& digits, char mark, size_t every, size_t at_least) {
  std::string out;
  size_t taken = 0;
  for (size_t i = digits.size(); i > 0 || out.size() < at_least;) {
    if (taken != 0 && taken % every == 0) {
      out += mark;
      if (i == 0 && out.size() >= at_least) {  // never a mark in front: one zero more instead
        out += '0';
        break;
      }
    }
    out += i > 0 ? digits[--i] : '0';
    ++taken;
  }
  std::ranges::reverse(out);
  return out;
}

std::string sign_text(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

std::string to_base(Int value, unsigned base, bool upper) {
  std::string digits;
  do {
    const auto digit = static_cast<unsigned>(value % static_cast<Int>(base));
    digits += (upper ? "0123456789ABCDEF" : "0123456789abcdef")[digit];
    value /= static_cast<Int>(base);
  } while (value > 0);
  std::ranges::reverse(digits);
  return digits;
}

std::string print_float(double value, int precision, char type, bool alternate) {
  const std::string pattern = fmt::format("%{}.*{}", alternate ? "#" : "", type);
  const int size = std::snprintf(nullptr, 0, pattern.c_str(), precision, value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), pattern.c_str(), precision, value);
  text.pop_back();
  return text;
}

// A precision without a type: `g` that keeps a digit behind the point and turns to an exponent one
// digit earlier.
std::string print_general(double magnitude, int precision, bool alternate) {
  const std::string scientific = print_float(magnitude, precision - 1, 'e', alternate);
  const size_t e = scientific.find('e');
  const int exponent = std::stoi(scientific.substr(e + 1));
  if (exponent >= -4 && exponent < precision - 1) {
    std::string text = print_float(magnitude, precision, 'g', alternate);
    return text.find('.') == std::string::npos ? text + ".0" : text;
  }
  std::string mantissa = scientific.substr(0, e);
  if (!alternate && mantissa.find('.') != std::string::npos) {
    mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.back() == '.') mantissa.pop_back();
  }
  return mantissa + scientific.substr(e);
}

std::string finite_digits(double magnitude, const FormatSpec& spec) {
  if (spec.type == 0 && spec.precision < 0) return float_to_string(magnitude);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  if (spec.type == 0) return print_general(magnitude, std::max(precision, 1), spec.alternate);
  if (spec.type == '%') return print_float(magnitude * 100, precision, 'f', spec.alternate);
  return print_float(magnitude, precision, spec.type == 'n' ? 'g' : spec.type, spec.alternate);
}

// Joins sign, prefix and digits with grouping and zero padding.
std::string finish(Runtime& runtime, const std::string& sign, const std::string& prefix,
                   const std::string& whole, const std::string& rest, const FormatSpec& spec,
                   size_t group) {
  FormatSpec padded = spec;
  const bool zeros = spec.fill == "0" && (spec.align == '=' || (spec.zero && spec.align == 0));
  std::string digits = whole;
  if (spec.grouping != 0) {
    const size_t taken = sign.size() + prefix.size() + rest.size();
    runtime.check_size(spec.width);
    const size_t room =
        zeros && spec.width > static_cast<Int>(taken) ? static_cast<size_t>(spec.width) - taken : 0;
    digits = group_digits(whole, spec.grouping, group, room);
  }
  if (zeros) padded.align = '=';
  return pad(runtime, sign + prefix + digits + rest, padded, '>', sign.size() + prefix.size());
}

}  // namespace

std::string converted(Runtime& runtime, const Value& value, char conversion, Escape escape) {
  std::string text = conversion == 's' ? str(runtime, value) : repr(runtime, value);
  if (conversion == 'a') {
    std::string ascii;
    for (size_t at = 0; at < text.size();) {
      const char32_t code = next_character(text, at);
      std::string one;
      append_character(one, code);
      if (code < 0x80) {
        ascii += one;
      } else {
        char buffer[16];
        std::snprintf(buffer, sizeof(buffer),
                      code < 0x100     ? "\\x%02x"
                      : code < 0x10000 ? "\\u%04x"
                                       : "\\U%08x",
                      static_cast<unsigned>(code));
        ascii += buffer;
      }
    }
    text = ascii;
  }
  if (escape == Escape::html && !(conversion == 's' && value.is_markup())) return escape_html(text);
  return text;
}

Int read_digits(std::string_view text, size_t& at) {
  Int value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = std::min<Int>(value * 10 + (text[at++] - '0'), INT64_MAX);
  }
  return value;
}

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

std::string format_int(Runtime& runtime, Int value, const FormatSpec& spec) {
  if (spec.precision >= 0) raise("Precision not allowed in integer format specifier");
  const bool negative = value < 0;
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF) raise("%c arg not in range(0x110000)");
    std::string text;
    append_character(text, static_cast<char32_t>(value));
    return pad(runtime, text, spec, '<');
  }
  const Int magnitude =
      negative ? unary(runtime, Op::negate, Value::integer(value)).as_int() : value;
  std::string digits;
  std::string prefix;
  switch (spec.type) {
    case 'b':
      digits = to_base(magnitude, 2, false);
      prefix = "0b";
      break;
    case 'o':
      digits = to_base(magnitude, 8, false);
      prefix = "0o";
      break;
    case 'x':
    case 'X':
      digits = to_base(magnitude, 16, spec.type == 'X');
      prefix = spec.type == 'X' ? "0X" : "0x";
      break;
    default:
      digits = int_to_string(magnitude);
  }
  if (!spec.alternate) prefix.clear();
  const bool decimal = spec.type == 0 || spec.type == 'd' || spec.type == 'n';
  if (!spec.negative_zero) raise("Negative zero coercion (z) not allowed in integer format");
  if (spec.grouping != 0 && spec.type == 'n') {
    raise("Cannot specify '", std::string(1, spec.grouping), "' with 'n'.");
  }
  if (spec.grouping == ',' && !decimal)
    raise("Cannot specify ',' with '", std::string(1, spec.type), "'.");
  return finish(runtime, sign_text(negative, spec.sign), prefix, digits, "", spec, decimal ? 3 : 4);
}

std::string format_float(Runtime& runtime, double value, const FormatSpec& spec) {
  if (spec.precision > kMaxPrecision) raise("the precision is too large");
  if (spec.grouping != 0 && spec.type == 'n') {
    raise("Cannot specify '", std::string(1, spec.grouping), "' with 'n'.");
  }
  std::string text = std::isfinite(value) ? finite_digits(std::abs(value), spec)
                     : std::isnan(value)  ? "nan"
                                          : "inf";
  if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') text = to_upper(text);
  if (spec.type == '%') text += '%';
  const bool is_zero = text.find_first_of("123456789") == std::string::npos && std::isfinite(value);
  const bool negative =
      std::signbit(value) && !std::isnan(value) && (spec.negative_zero || !is_zero);
  const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
  return finish(runtime, sign_text(negative, spec.sign), "", text.substr(0, whole),
                text.substr(whole), spec, 3);
}

}  // namespace plimsoll::text::jinja
