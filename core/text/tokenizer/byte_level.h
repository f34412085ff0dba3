// GPT-2's printable spelling of bytes: every byte is one character.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll::text {

namespace byte_level {

/// The character that stands for a byte, as UTF-8 of one or two bytes.
struct Spelling {
  char bytes[2];
  uint8_t length;
};

/// Character of each byte (encoder.py of GPT-2): printable bytes are themselves, the others U+0100
/// onwards in order.
constexpr std::array<uint16_t, 256> characters() {
  std::array<uint16_t, 256> table{};
  uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    table[static_cast<size_t>(byte)] = printable ? static_cast<uint16_t>(byte) : next++;
  }
  return table;
}

constexpr std::array<Spelling, 256> spellings() {
  std::array<Spelling, 256> table{};
  for (size_t byte = 0; byte < 256; ++byte) {
    const uint16_t c = characters()[byte];
    table[byte] =
        c < 0x80
            ? Spelling{{static_cast<char>(c), 0}, 1}
            : Spelling{{static_cast<char>(0xC0 | (c >> 6)), static_cast<char>(0x80 | (c & 0x3F))},
                       2};
  }
  return table;
}

inline constexpr std::array<Spelling, 256> kSpellings = spellings();

/// Appends the spelling of `bytes` to `out`.
inline void append(std::string& out, std::string_view bytes) {
  for (const char c : bytes) {
    const Spelling& spelling = kSpellings[static_cast<unsigned char>(c)];
    out.append(spelling.bytes, spelling.length);
  }
}

/// Appends the bytes that `token` spells; false, with `out` unchanged, when a character is none of
/// the 256.
bool append_bytes(std::string& out, std::string_view token);

}  // namespace byte_level
}  // namespace plimsoll::text
