// str(), repr() and the reading of numbers.
#include <fmt/format.h>

#include <algorithm>
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
  text = strip(text, nullptr, Side::both);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 32) : '0';
  const int named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    text.remove_prefix(2);
    base = named;
  }
  if (base == 0) base = 10;
  const auto digits = plain_digits(text);
  if (!digits || digits->empty()) return std::nullopt;
  const auto fits = [&](char c) { return digit_value(c) < base; };
  if (!std::ranges::all_of(*digits, fits)) return std::nullopt;
  Int value = 0;
  for (const char c : *digits) {
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit_value(c)}, &value)) {
      raise("an integer is too large (more than 127 bits)");
    }
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  auto plain = plain_digits(strip(text, nullptr, Side::both));
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view rest = *plain;
  if (rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || (rest != *plain && rest[0] == '-')) return std::nullopt;
  double value = 0;  // from_chars knows "inf" and "nan" as Python does, but "nan(x)" too
  const auto done = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (done.ptr != rest.data() + rest.size() || rest.back() == ')') return std::nullopt;
  if (done.ec == std::errc::result_out_of_range)
    return std::strtod(std::string(rest).c_str(), nullptr);
  return value;
}

}  // namespace plimsoll::text::jinja
