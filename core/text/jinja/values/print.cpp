// str(), repr() and the reading of numbers.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "text/jinja/values/operators.h"
#include "text/jinja/values/runtime.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

constexpr int kMaxReprDepth = 500;

void append_items(Runtime& runtime, std::string& out, const std::vector<Value>& items, int depth) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_repr(runtime, out, items[i], depth);
  }
}

void append_dict(Runtime& runtime, std::string& out, const Dict& dict, int depth) {
  out += '{';
  const char* separator = "";
  for (const auto& [key, value] : dict.entries()) {
    out += separator;
    append_repr(runtime, out, key, depth);
    out += ": ";
    append_repr(runtime, out, value, depth);
    separator = ", ";
  }
  out += '}';
}

void append_view(Runtime& runtime, std::string& out, const Value& value, int depth) {
  out += value.as_view().type_name();
  out += "([";
  Cursor cursor(runtime, value);
  const char* separator = "";
  for (Value item; cursor.next(item); separator = ", ") {
    out += separator;
    append_repr(runtime, out, item, depth);
  }
  out += "])";
}

std::string range_repr(const Range& range) {
  std::string text = "range(" + int_to_string(range.start) + ", " + int_to_string(range.stop);
  if (range.step != 1) text += ", " + int_to_string(range.step);
  return text + ")";
}

// Digits with single underscores between them, as Python allows; the underscores removed.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string out;
  bool digit_before = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '_') {
      if (!digit_before || i + 1 == text.size() || text[i + 1] == '_') return std::nullopt;
      digit_before = false;
      continue;
    }
    out += text[i];
    digit_before = std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  }
  return out;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// Decimal digits of other scripts become ASCII; surrounding whitespace goes.
std::string normalize_number(std::string_view text) {
  std::string out;
  const std::string_view inner = strip(text, nullptr, Side::both);
  for (size_t at = 0; at < inner.size();) {
    const char32_t code = next_character(inner, at);
    if (code < 0x80) {
      out += static_cast<char>(code);
      continue;
    }
    if (!is_decimal(code)) return "?";
    char32_t zero = code;  // digits of a script lie in a row of ten
    while (code - zero < 9 && is_decimal(zero - 1)) --zero;
    out += static_cast<char>('0' + (code - zero) % 10);
  }
  return out;
}

}  // namespace

std::string str(Runtime& runtime, const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return {};
  return repr(runtime, value);
}

std::string repr(Runtime& runtime, const Value& value, int depth) {
  std::string out;
  append_repr(runtime, out, value, depth);
  return out;
}

void append_repr(Runtime& runtime, std::string& out, const Value& value, int depth) {
  if (depth > kMaxReprDepth)
    raise("maximum recursion depth exceeded while getting the repr of an object");
  runtime.charge(1);
  runtime.check_size(static_cast<Int>(out.size()));
  switch (value.kind()) {
    case Kind::missing:
      out += "missing";
      break;
    case Kind::none:
      out += "None";
      break;
    case Kind::boolean:
      out += value.as_bool() ? "True" : "False";
      break;
    case Kind::integer:
      out += int_to_string(value.as_int());
      break;
    case Kind::floating:
      out += float_to_string(value.as_double());
      break;
    case Kind::string: {
      runtime.charge_scan(value.text().size());
      const std::string quoted = quote(value.text());
      out += value.is_markup() ? "Markup(" + quoted + ")" : quoted;
      break;
    }
    case Kind::list:
      out += '[';
      append_items(runtime, out, value.items(), depth + 1);
      out += ']';
      break;
    case Kind::tuple:
      out += '(';
      append_items(runtime, out, value.items(), depth + 1);
      out += value.items().size() == 1 ? ",)" : ")";
      break;
    case Kind::dict:
      append_dict(runtime, out, value.as_dict(), depth + 1);
      break;
    case Kind::undefined:
      out += "Undefined";
      break;
    case Kind::range:
      out += range_repr(value.as_range());
      break;
    case Kind::view:
      append_view(runtime, out, value, depth + 1);
      break;
    default:
      out += value.object()->repr(runtime, depth + 1);
  }
}

std::string quote(std::string_view text) {
  const bool double_quotes =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char mark = double_quotes ? '"' : '\'';
  std::string out(1, mark);
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_character(text, at);
    if (code == static_cast<char32_t>(mark) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      append_character(out, code);
    } else if (code < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
    } else if (code < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(code));
    }
  }
  return out + mark;
}

std::string int_to_string(Int value) {
  return fmt::format("{}", value);
}

std::string float_to_string(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto done =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string_view scientific(buffer, static_cast<size_t>(done.ptr - buffer));
  const size_t e = scientific.find('e');
  int exponent = 0;
  const char* digits = scientific.data() + e + 1 + (scientific[e + 1] == '+');
  std::from_chars(digits, done.ptr, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::optional<Int> parse_int(std::string_view text, int base) {
  std::string number = normalize_number(text);
  bool negative = false;
  std::string_view rest = number;
  if (!rest.empty() && (rest[0] == '-' || rest[0] == '+')) {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  const auto prefix_base = [&] {
    if (rest.size() < 2 || rest[0] != '0') return 0;
    const char letter = static_cast<char>(rest[1] | 32);
    return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  }();
  if (prefix_base != 0 && (base == 0 || base == prefix_base)) {
    rest.remove_prefix(2);
    if (!rest.empty() && rest[0] == '_') rest.remove_prefix(1);
    base = prefix_base;
  } else if (base == 0) {
    if (rest.size() > 1 && rest[0] == '0' && rest.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
    base = 10;
  }
  const auto digits = plain_digits(rest);
  if (!digits || digits->empty()) return std::nullopt;
  Int value = 0;
  for (const char c : *digits) {
    if (digit_value(c) >= base) return std::nullopt;
  }
  for (const char c : *digits) {
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit_value(c)}, &value)) {
      raise("an integer is too large (more than 127 bits)");
    }
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  std::string number = normalize_number(text);
  const auto plain = plain_digits(number);
  if (!plain) return std::nullopt;
  std::string_view rest = *plain;
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || rest[0] == '+' || (rest != *plain && rest[0] == '-')) return std::nullopt;
  const std::string word = to_lower(rest[0] == '-' ? rest.substr(1) : rest);
  double value = 0;
  if (word == "nan" || word == "inf" || word == "infinity") {
    value = word == "nan" ? std::nan("") : HUGE_VAL;
    return rest[0] == '-' ? -value : value;
  }
  if (word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  const auto done = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (done.ptr != rest.data() + rest.size()) return std::nullopt;
  if (done.ec == std::errc::result_out_of_range)
    return std::strtod(std::string(rest).c_str(), nullptr);
  if (done.ec != std::errc()) return std::nullopt;
  return value;
}

}  // namespace plimsoll::text::jinja
