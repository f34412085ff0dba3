// UTF-8 and the character facts that the reference tokenizers rest on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::text {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// Bytes of the character that starts with `lead`; 1 for bytes that start none.
inline size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0xC0) return 1;
  if (byte < 0xE0) return 2;
  return byte < 0xF0 ? 3 : 4;
}

/// The character at `at` of valid UTF-8; `at` moves behind it.
inline char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t lead = byte(at);
  if (lead < 0x80) return ++at, lead;
  const size_t length = utf8_length(text[at]);
  if (at + length > text.size()) return ++at, U'\uFFFD';
  char32_t character = lead & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) character = (character << 6) | (byte(at + i) & 0x3F);
  at += length;
  return character;
}

inline void append_character(std::string& text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text +=
        {static_cast<char>(0xC0 | (character >> 6)), static_cast<char>(0x80 | (character & 0x3F))};
  } else if (character < 0x10000) {
    text += {static_cast<char>(0xE0 | (character >> 12)),
             static_cast<char>(0x80 | ((character >> 6) & 0x3F)),
             static_cast<char>(0x80 | (character & 0x3F))};
  } else {
    text += {static_cast<char>(0xF0 | (character >> 18)),
             static_cast<char>(0x80 | ((character >> 12) & 0x3F)),
             static_cast<char>(0x80 | ((character >> 6) & 0x3F)),
             static_cast<char>(0x80 | (character & 0x3F))};
  }
}

/// Offset of the first byte of the character that holds byte `end - 1`. `end` > 0.
inline size_t previous_character(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

/// The beginning of a text: `length` bytes that form a character (`valid`), or the longest broken
/// piece that one U+FFFD stands for, by Unicode's "maximal subpart" rule. `open`: more bytes could
/// still complete it.
struct Utf8Unit {
  size_t length = 0;
  bool valid = false;
  bool open = false;
};
Utf8Unit first_utf8_unit(std::string_view text);
bool is_valid_utf8(std::string_view text);

bool is_ascii(std::string_view text);
bool is_white_space(char32_t character);      // White_Space
bool is_numeric(char32_t character);          // Nd, Nl, No
bool is_punctuation(char32_t character);      // P*, and ASCII's punctuation and symbols
bool is_nonspacing_mark(char32_t character);  // Mn
bool is_combining_mark(char32_t character);   // M*
bool is_other(char32_t character);            // Cc, Cf, Cs, Co
/// True for characters of a word in the Rust crate `regex`: Alphabetic, M*, Nd, Pc, Join_Control.
bool is_word(char32_t character);
/// Lower case of one character by itself; at most two characters.
std::u32string_view lower_case(char32_t character, char32_t (&buffer)[2]);
bool is_chinese(char32_t character);  // the blocks that BERT separates

enum class UnicodeForm { nfc, nfd, nfkc, nfkd };
/// Normalises a text to a form. Linear in the text, also for long runs of combining marks.
std::string to_form(std::string_view text, UnicodeForm form);

/// Length in bytes of the first extended grapheme cluster of a non-empty text.
size_t first_grapheme(std::string_view text);

}  // namespace plimsoll::text
