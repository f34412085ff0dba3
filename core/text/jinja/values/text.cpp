#include "text/jinja/values/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

namespace plimsoll::text::jinja {
namespace {

constexpr size_t kShortNeedle = 32;  // bytes; comparing it at every place is cheap enough

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Number of code points that begin in the eight bytes at `at`.
size_t begins_in_word(std::string_view text, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, text.data() + at, sizeof(word));
  const uint64_t continuations = (word >> 7) & (~word >> 6) & 0x0101010101010101U;
  return 8 - static_cast<size_t>(std::popcount(continuations));
}

// The byte where code point `count` behind `at` begins; it exists.
size_t skip_code_points(std::string_view text, size_t at, size_t count) {
  while (at + 8 <= text.size()) {
    const size_t here = begins_in_word(text, at);
    if (here > count) break;
    count -= here;
    at += 8;
  }
  for (; at < text.size(); ++at) {
    if (!is_continuation(text[at]) && count-- == 0) break;
  }
  return at;
}

}  // namespace

char32_t previous_code_point(std::string_view text, size_t& end) {
  end = previous_character(text, end);
  size_t at = end;
  return next_character(text, at);
}

size_t byte_offset(const String& text, size_t index) {
  constexpr size_t kNear = 64;
  const std::string_view bytes = text.text;
  if (text.ascii()) return std::min(index, bytes.size());
  if (index >= text.length()) return bytes.size();
  const size_t left = text.length() - index;
  if (left > kNear) return skip_code_points(bytes, 0, index);
  size_t at = bytes.size();
  for (size_t i = 0; i < left; ++i) previous_code_point(bytes, at);
  return at;
}

size_t code_point_index(const String& text, size_t offset) {
  return text.ascii() ? offset : count_code_points(std::string_view(text.text).substr(0, offset));
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) count += begins_in_word(text, at);
  for (; at < text.size(); ++at) count += !is_continuation(text[at]);
  return count;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  return code == 0x85 || code == 0x2028 || code == 0x2029 || category(code) == UTF8PROC_CATEGORY_ZS;
}

bool is_alpha(char32_t code) {
  const auto kind = category(code);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t code) {
  if (is_decimal(code)) return true;
  // Superscripts, subscripts and enclosed digits: Unicode's Numeric_Type=Digit.
  return code == 0xB2 || code == 0xB3 || code == 0xB9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
         (code >= 0x2460 && code <= 0x2468) || (code >= 0x2474 && code <= 0x247C) ||
         (code >= 0x2488 && code <= 0x2490) || code == 0x24EA ||
         (code >= 0x24F5 && code <= 0x24FD) || code == 0x24FF ||
         (code >= 0x2776 && code <= 0x277E) || (code >= 0x2780 && code <= 0x2788) ||
         (code >= 0x278A && code <= 0x2792);
}

bool is_numeric(char32_t code) {
  const auto kind = category(code);
  if (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) return true;
  // The ideographs that Unihan gives a value.
  static constexpr std::u32string_view kIdeographs =
      U"〇一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺廾廿弌弍弎弐拾捌柒漆玖百"
      U"肆萬貮貳贰阡陆陌陸零";
  return kIdeographs.find(code) != std::u32string_view::npos;
}

bool is_word(char32_t code) {
  if (code < 0x80) {
    return code == '_' || (code >= '0' && code <= '9') ||
           ((code | 32) >= 'a' && (code | 32) <= 'z');
  }
  return is_alpha(code) || is_numeric(code);
}

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= ' ';
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_upper(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LU || (code >= 0x2160 && code <= 0x216F) ||
         (code >= 0x24B6 && code <= 0x24CF);
}
bool is_lower(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LL || code == 0xAA || code == 0xBA ||
         (code >= 0x2170 && code <= 0x217F) || (code >= 0x24D0 && code <= 0x24E9) ||
         (code >= 0x2B0 && code <= 0x2B8);
}
bool is_title(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_LT;
}
bool is_cased(char32_t code) {
  return is_upper(code) || is_lower(code) || is_title(code);
}

bool is_identifier(std::string_view text) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const char32_t code = next_character(text, at);
    const auto kind = category(code);
    const bool mark = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
                      kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC;
    const bool letter = code == '_' || is_alpha(code) || kind == UTF8PROC_CATEGORY_NL;
    if (!letter && (first || !mark)) return false;
  }
  return true;
}

bool is_line_end(char32_t code) {
  return (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

std::string_view strip(std::string_view text, const std::string* chars, Side side) {
  std::u32string set;
  for (size_t at = 0; chars != nullptr && at < chars->size();) set += next_character(*chars, at);
  std::ranges::sort(set);
  const auto drop = [&](char32_t code) {
    return chars == nullptr ? is_space(code) : std::ranges::binary_search(set, code);
  };
  size_t begin = 0;
  size_t end = text.size();
  if (static_cast<unsigned>(side) & static_cast<unsigned>(Side::left)) {
    while (begin < end) {
      size_t after = begin;
      if (!drop(next_character(text, after))) break;
      begin = after;
    }
  }
  if (static_cast<unsigned>(side) & static_cast<unsigned>(Side::right)) {
    while (end > begin) {
      size_t before = end;
      if (!drop(previous_code_point(text, before))) break;
      end = before;
    }
  }
  return text.substr(begin, end - begin);
}

size_t find_bytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.size() <= kShortNeedle) return text.find(needle, from);
  // glibc's memmem is linear; string_view::find is not.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t rfind_bytes(std::string_view text, std::string_view needle) {
  if (needle.size() <= kShortNeedle) return text.rfind(needle);
  // Knuth-Morris-Pratt from the right.
  const size_t n = needle.size();
  const auto mirrored = [&](size_t i) { return needle[n - 1 - i]; };
  std::vector<size_t> border(n, 0);
  for (size_t i = 1, k = 0; i < n; ++i) {
    while (k > 0 && mirrored(i) != mirrored(k)) k = border[k - 1];
    if (mirrored(i) == mirrored(k)) ++k;
    border[i] = k;
  }
  for (size_t at = text.size(), k = 0; at-- > 0;) {
    while (k > 0 && text[at] != mirrored(k)) k = border[k - 1];
    if (text[at] == mirrored(k)) ++k;
    if (k == n) return at;
  }
  return std::string_view::npos;
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace plimsoll::text::jinja
