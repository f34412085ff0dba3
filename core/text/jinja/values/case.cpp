// Upper, lower and title case with Unicode's special cases.
#include <utf8proc.h>

#include <array>
#include <span>

#include "text/jinja/values/text.h"

namespace plimsoll::text::jinja {
namespace {

utf8proc_category_t category_of(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

char32_t simple_upper(char32_t code) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
}

// A lower or title case character whose upper case has several code points (ß: SS) is written out
// by its full case folding; empty for all others.
class Expansion {
 public:
  explicit Expansion(char32_t code) {
    if (code < 0x80 || category_of(code) == UTF8PROC_CATEGORY_LU) return;
    int last = UTF8PROC_BOUNDCLASS_START;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), codes_.data(),
                                               static_cast<utf8proc_ssize_t>(codes_.size()),
                                               UTF8PROC_CASEFOLD, &last);
    if (count > 1) size_ = static_cast<size_t>(count);
  }
  [[nodiscard]] std::span<const utf8proc_int32_t> codes() const { return {codes_.data(), size_}; }

 private:
  std::array<utf8proc_int32_t, 8> codes_{};
  size_t size_ = 0;
};

void append_upper(std::string& out, char32_t code) {
  const Expansion expansion(code);
  if (expansion.codes().empty()) append_character(out, simple_upper(code));
  for (const auto part : expansion.codes())
    append_character(out, simple_upper(static_cast<char32_t>(part)));
}

// Appends the title case of a character: in an expansion the first letter that has an upper case is
// raised; an iota after it stays a subscript.
void append_title(std::string& out, char32_t code) {
  const auto title = static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
  const Expansion expansion(code);
  if (expansion.codes().empty() || is_title(title)) return append_character(out, title);
  bool raised = false;
  for (const auto part : expansion.codes()) {
    const auto letter = static_cast<char32_t>(part);
    const char32_t upper = simple_upper(letter);
    append_character(out, !raised ? upper : letter == U'\u03B9' ? U'\u0345' : letter);
    raised |= upper != letter;
  }
}

// Marks between letters that do not end a word for the final sigma.
bool is_case_ignorable(char32_t code) {
  if (code == '\'' || code == '.' || code == ':' || code == '^' || code == '`' || code == 0xB7)
    return true;
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return false;
  }
}

bool ends_word(std::string_view text, size_t begin, size_t end) {
  bool cased_before = false;
  while (begin > 0) {
    const char32_t code = previous_code_point(text, begin);
    if (is_case_ignorable(code)) continue;
    cased_before = is_cased(code);
    break;
  }
  if (!cased_before) return false;
  while (end < text.size()) {
    const char32_t code = next_character(text, end);
    if (!is_case_ignorable(code)) return !is_cased(code);
  }
  return true;
}

// Lower case of the code point that lies in text[begin, end).
void append_lower(std::string& out, char32_t code, std::string_view text, size_t begin,
                  size_t end) {
  if (code < 0x80) {
    out += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else if (code == 0x130) {
    out += "i\u0307";
  } else if (code == 0x3A3 && ends_word(text, begin, end)) {
    append_character(out, 0x3C2);
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(code))));
  }
}

// Applies `append(out, code, begin, end)` to every code point.
template <typename Append>
std::string map_code_points(std::string_view text, Append append) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = next_character(text, at);
    append(out, code, begin, at);
  }
  return out;
}

}  // namespace

std::string to_upper(std::string_view text) {
  return map_code_points(
      text, [](std::string& out, char32_t code, size_t, size_t) { append_upper(out, code); });
}

std::string to_lower(std::string_view text) {
  return map_code_points(text, [&](std::string& out, char32_t code, size_t begin, size_t end) {
    append_lower(out, code, text, begin, end);
  });
}

std::string to_title(std::string_view text) {
  bool inside = false;
  return map_code_points(text, [&](std::string& out, char32_t code, size_t begin, size_t end) {
    if (inside) {
      append_lower(out, code, text, begin, end);
    } else {
      append_title(out, code);
    }
    inside = is_cased(code);
  });
}

std::string capitalize(std::string_view text) {
  return map_code_points(text, [&](std::string& out, char32_t code, size_t begin, size_t end) {
    if (begin == 0) {
      append_title(out, code);
    } else {
      append_lower(out, code, text, begin, end);
    }
  });
}

}  // namespace plimsoll::text::jinja
