#include "text/jinja/parse/escapes.h"

#include <fmt/format.h>

#include "text/jinja/parse/lexer.h"
#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

char32_t hex_code(std::string_view literal, size_t& at, size_t digits, int line) {
  char32_t code = 0;
  for (size_t i = 0; i < digits; ++i, ++at) {
    const int value = at < literal.size() ? hex_value(literal[at]) : -1;
    if (value < 0) fail_syntax("truncated \\x, \\u or \\U escape in a string", line);
    code = code << 4 | static_cast<char32_t>(value);
  }
  if (code > 0x10FFFF) fail_syntax("illegal Unicode character in a string escape", line);
  return code;
}

char32_t octal_code(std::string_view literal, size_t& at) {
  char32_t code = 0;
  for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7';
       ++i, ++at) {
    code = code << 3 | static_cast<char32_t>(literal[at] - '0');
  }
  return code;
}

// jinja2 writes text beyond ASCII as escapes before decoding, so a backslash before it escapes the
// escape.
void append_escaped_escape(std::string& out, char32_t code) {
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<uint32_t>(code));
  }
}

}  // namespace

std::string decode_escapes(std::string_view literal, int line) {
  static constexpr std::string_view kLetters = "abfnrtv\\'\"";
  static constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
  std::string out;
  out.reserve(literal.size());
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\') {
      out += literal[at++];
      continue;
    }
    ++at;
    const char c = literal[at];
    if (const size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      out += kMeanings[letter];
      ++at;
    } else if (c == '\n') {
      ++at;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      append_character(out, hex_code(literal, ++at, c == 'x' ? 2 : c == 'u' ? 4 : 8, line));
    } else if (c >= '0' && c <= '7') {
      append_character(out, octal_code(literal, at));
    } else if (c == 'N') {
      fail_syntax("\\N{...} escapes are not supported", line);
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      append_escaped_escape(out, next_character(literal, at));
    } else {
      out += '\\';
      out += c;
      ++at;
    }
  }
  return out;
}

}  // namespace plimsoll::text::jinja
