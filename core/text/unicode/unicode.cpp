#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "text/unicode/tables.h"

namespace plimsoll::text {

Utf8Unit first_utf8_unit(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const size_t length = utf8_length(text[0]);
  // The second byte is what rules out overlong forms, surrogates and numbers above U+10FFFF.
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    if (byte(i) < low || byte(i) > high) return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    if (text.size() >= sizeof(uint64_t) && is_ascii(text.substr(0, sizeof(uint64_t)))) {
      text.remove_prefix(sizeof(uint64_t));
      continue;
    }
    const Utf8Unit unit = first_utf8_unit(text);
    if (!unit.valid) return false;
    text.remove_prefix(unit.length);
  }
  return true;
}

bool is_ascii(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t at = 0;
  for (; at + sizeof(uint64_t) <= text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    if (word & kHighBits) return false;
  }
  return std::ranges::all_of(text.substr(at),
                             [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool between(utf8proc_category_t value, utf8proc_category_t first, utf8proc_category_t last) {
  return value >= first && value <= last;
}

}  // namespace

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return between(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) ||
         in_ranges(kNumericAdditions, c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  return between(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) !=
         in_ranges(kPunctuationExceptions, c);
}

bool is_nonspacing_mark(char32_t c) {
  return c >= 0x300 &&
         (category(c) == UTF8PROC_CATEGORY_MN) != in_ranges(kNonspacingMarkExceptions, c);
}

bool is_combining_mark(char32_t c) {
  return c >= 0x300 && between(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) !=
                           in_ranges(kCombiningMarkExceptions, c);
}

bool is_other(char32_t c) {
  if (c < 0x80) return c < 0x20 || c == 0x7F;
  return between(category(c), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO) &&
         !in_ranges(kOtherExceptions, c);
}

bool is_word(char32_t c) {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
  const utf8proc_category_t kind = category(c);
  if (between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || kind == UTF8PROC_CATEGORY_PC)
    return true;
  if (c == 0x200C || c == 0x200D) return true;
  return in_ranges(kAlphabeticSymbols, c) || in_ranges(kWordAdditions, c);
}

std::u32string_view lower_case(char32_t c, char32_t (&buffer)[2]) {
  if (c == 0x130) {
    buffer[0] = 'i';
    buffer[1] = 0x307;
    return {buffer, 2};
  }
  if (c < 0x80) {
    buffer[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
    return {buffer, 1};
  }
  buffer[0] = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  const auto* range = std::ranges::lower_bound(kLowerCaseAdditions, c, {}, &LowerCaseRange::last);
  if (range != std::end(kLowerCaseAdditions) && range->first <= c) {
    buffer[0] = static_cast<char32_t>(static_cast<int32_t>(c) + range->distance);
  }
  return {buffer, 1};
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

namespace {

using Characters = std::vector<utf8proc_int32_t>;

/// A mark after Unicode 9, which is of no class there: a letter like others.
bool is_unknown_mark(utf8proc_int32_t c) {
  return in_ranges(kCombiningMarkExceptions, static_cast<char32_t>(c));
}

uint8_t combining_class(utf8proc_int32_t c) {
  const auto known = static_cast<uint8_t>(utf8proc_get_property(c)->combining_class);
  return known != 0 && is_unknown_mark(c) ? 0 : known;
}

void append_decomposed(Characters& out, char32_t c, utf8proc_option_t options) {
  constexpr char32_t kUnknownThere = 0x11938;  // the one canonical decomposition of Unicode 13
  if (c < 0xA0 || c == kUnknownThere ||
      ((options & UTF8PROC_COMPAT) && in_ranges(kCompatibilityExceptions, c))) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  utf8proc_int32_t parts[32];  // the longest decomposition has 18 characters
  int boundary = 0;
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32, options, &boundary);
  if (count <= 0 || count > 32) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  out.insert(out.end(), parts, parts + count);
}

// utf8proc's own ordering is quadratic in the length of a run of marks.
void order_marks(Characters& characters) {
  auto start = characters.begin();
  while (start != characters.end()) {
    if (combining_class(*start) == 0) {
      ++start;
      continue;
    }
    const auto end = std::find_if(start, characters.end(),
                                  [](utf8proc_int32_t c) { return combining_class(c) == 0; });
    if (end - start > 1) {
      std::stable_sort(start, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
        return combining_class(a) < combining_class(b);
      });
    }
    start = end;
  }
}

// Composes characters in place. In the reference's Unicode version unknown marks are letters, so
// nothing composes with them or across them.
void compose_characters(Characters& characters) {
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  auto to = characters.begin(), from = to;
  while (from != characters.end()) {
    const auto end = std::find_if(from, characters.end(), is_unknown_mark);
    const auto count = utf8proc_normalize_utf32(&*from, end - from, kCompose);
    to = std::copy_n(from, count, to);
    from = end;
    if (from != characters.end()) *to++ = *from++;
  }
  characters.erase(to, characters.end());
}

// No character below these is changed by the form, whatever stands beside it.
char32_t first_affected(UnicodeForm form) {
  switch (form) {
    case UnicodeForm::nfc:
      return 0x300;
    case UnicodeForm::nfd:
      return 0xC0;
    case UnicodeForm::nfkc:
    case UnicodeForm::nfkd:
      return 0xA0;
  }
  return 0;
}

}  // namespace

std::string to_form(std::string_view text, UnicodeForm form) {
  const char32_t affected = first_affected(form);
  size_t at = 0;
  bool clean = true;
  while (clean && at < text.size()) clean = next_character(text, at) < affected;
  if (clean) return std::string(text);

  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  const bool compose = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  Characters characters;
  characters.reserve(text.size());
  for (at = 0; at < text.size();) append_decomposed(characters, next_character(text, at), options);
  order_marks(characters);
  if (compose) compose_characters(characters);
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t c : characters) append_character(out, static_cast<char32_t>(c));
  return out;
}

size_t first_grapheme(std::string_view text) {
  size_t at = 0;
  auto previous = static_cast<utf8proc_int32_t>(next_character(text, at));
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    size_t next = at;
    const auto current = static_cast<utf8proc_int32_t>(next_character(text, next));
    if (utf8proc_grapheme_break_stateful(previous, current, &state)) break;
    previous = current;
    at = next;
  }
  return at;
}

}  // namespace plimsoll::text
