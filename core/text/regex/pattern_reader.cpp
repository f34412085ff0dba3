#include "text/regex/pattern_reader.h"

#include "base/error.h"
#include "text/regex/regex.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {
namespace {

constexpr size_t kMaxNesting = 100;

// The value of a hexadecimal digit, or -1.
int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int letter = c | 0x20;
  return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

}  // namespace

void PatternReader::refuse(std::string_view why) const {
  throw RegexError(
      fmt::format("regular expression '{}', byte {}: {}", text_.substr(0, 120), at_, why));
}

bool PatternReader::take(std::string_view what) {
  if (!ahead(what)) return false;
  at_ += what.size();
  return true;
}

char32_t PatternReader::character() {
  if (!more()) refuse("ends too early");
  return next_character(text_, at_);
}

void PatternReader::deeper() {
  if (++depth_ > kMaxNesting) refuse(fmt::format("nested deeper than {} levels", kMaxNesting));
}

char32_t PatternReader::escaped_character() {
  const char32_t c = character();
  if (c == 'u') return hexadecimal(4);
  if (c == 'x') return hexadecimal_escape();
  if (c == '0') return octal();
  constexpr std::string_view kNames = "tnrfvae";
  constexpr std::string_view kMeanings = "\t\n\r\f\v\a\x1B";
  if (const size_t name = c < 0x80 ? kNames.find(static_cast<char>(c)) : std::string_view::npos;
      name != std::string_view::npos) {
    return static_cast<char32_t>(kMeanings[name]);
  }
  if (c < 0x80 && is_word(c) && c != '_')
    refuse(fmt::format("'\\{}' is not supported", static_cast<char>(c)));
  return c;
}

char32_t PatternReader::hexadecimal(size_t most) {
  char32_t value = 0;
  size_t count = 0;
  while (count < most && more() && digit_value(text_[at_]) >= 0) {
    value = value * 16 + static_cast<char32_t>(digit_value(text_[at_]));
    ++count;
    ++at_;
  }
  if (count == 0) refuse("hexadecimal digits are missing");
  if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) refuse("no such character");
  return value;
}

// \x{3042}, \x41, or the bytes of a character: \xE3\x81\x82.
char32_t PatternReader::hexadecimal_escape() {
  if (take("{")) {
    const char32_t value = hexadecimal(8);
    if (!take("}")) refuse("a character's number is not closed");
    return value;
  }
  std::string bytes(1, static_cast<char>(hexadecimal(2)));
  const size_t length = utf8_length(bytes[0]);
  while (bytes.size() < length && take("\\x")) bytes += static_cast<char>(hexadecimal(2));
  if (!is_valid_utf8(bytes)) refuse("these bytes are no character");
  size_t at = 0;
  return next_character(bytes, at);
}

char32_t PatternReader::octal() {
  char32_t value = 0;
  for (int i = 0; i < 2 && more() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
    value = value * 8 + static_cast<char32_t>(text_[at_++] - '0');
  }
  return value;
}

}  // namespace plimsoll::text
