#include "batch/json_text.h"

#include <charconv>
#include <cmath>

#include "batch/line_reader.h"

namespace plimsoll::batch {
namespace {

template <typename Number>
void append_number(std::string& text, Number value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  text.append(digits, end);
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

void append_escaped(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  size_t plain = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    out.append(text, plain, i - plain);
    plain = i + 1;
    const size_t short_form = std::string_view("\"\\\b\f\n\r\t").find(text[i]);
    out += '\\';
    if (short_form != std::string_view::npos) {
      out += "\"\\bfnrt"[short_form];
    } else {
      out += "u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  out.append(text, plain);
}

}  // namespace

void JsonText::separate() {
  if (comma_) text_ += ',';
  comma_ = true;
}

JsonText& JsonText::open(char bracket) {
  separate();
  text_ += bracket;
  comma_ = false;
  return *this;
}

JsonText& JsonText::close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

JsonText& JsonText::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  comma_ = false;
  return *this;
}

JsonText& JsonText::string(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

void JsonText::quote(std::string_view text) {
  text_ += '"';
  while (const auto bad = first_invalid_utf8(text)) {
    append_escaped(text_, text.substr(0, *bad));
    text_ += kReplacement;
    text.remove_prefix(*bad + 1);
  }
  append_escaped(text_, text);
  text_ += '"';
}

JsonText& JsonText::integer(int64_t value) {
  separate();
  append_number(text_, value);
  return *this;
}

JsonText& JsonText::unsigned_integer(uint64_t value) {
  separate();
  append_number(text_, value);
  return *this;
}

JsonText& JsonText::number(float value) {
  if (!std::isfinite(value)) return null();
  separate();
  append_number(text_, value);
  return *this;
}

JsonText& JsonText::number(double value) {
  if (!std::isfinite(value)) return null();
  separate();
  append_number(text_, value);
  return *this;
}

JsonText& JsonText::boolean(bool value) {
  separate();
  text_ += value ? "true" : "false";
  return *this;
}

JsonText& JsonText::null() {
  separate();
  text_ += "null";
  return *this;
}

}  // namespace plimsoll::batch
