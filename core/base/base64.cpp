#include "base/base64.h"

#include <algorithm>
#include <array>

namespace plimsoll {
namespace {

constexpr uint32_t kNone = 0x80000000;  // no letter

/// The number that each letter stands for, at each of four places.
using Table = std::array<std::array<uint32_t, 256>, 4>;

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr Table make_table() {
  Table table{};
  for (size_t place = 0; place < 4; ++place) {
    table[place].fill(kNone);
    for (size_t i = 0; i < kLetters.size(); ++i) {
      table[place][static_cast<unsigned char>(kLetters[i])] = static_cast<uint32_t>(i)
                                                              << (18 - 6 * place);
    }
  }
  return table;
}

constexpr Table kTable = make_table();

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void put(uint32_t bits, uint8_t* bytes) {
  bytes[0] = static_cast<uint8_t>(bits >> 16);
  bytes[1] = static_cast<uint8_t>(bits >> 8);
  bytes[2] = static_cast<uint8_t>(bits);
}

/// Four letters that stand together; kNone is set where one is none.
uint32_t four(const char* text) {
  const auto* at = reinterpret_cast<const unsigned char*>(text);
  return kTable[0][at[0]] | kTable[1][at[1]] | kTable[2][at[2]] | kTable[3][at[3]];
}

}  // namespace

std::optional<size_t> decode_base64(std::string_view text, uint8_t* bytes) {
  uint8_t* to = bytes;
  size_t at = 0;
  uint32_t bits = 0;
  size_t letters = 0, padding = 0;  // of the four under way
  while (at < text.size()) {
    while (letters == 0 && padding == 0 && at + 4 <= text.size()) {
      const uint32_t all = four(text.data() + at);
      if (all & kNone) break;
      put(all, to);
      to += 3;
      at += 4;
    }
    if (at == text.size()) break;
    const char c = text[at++];
    if (is_blank(c)) continue;
    if (c == '=' && letters >= 2 && letters + padding < 4) {
      ++padding;
      continue;
    }
    const uint32_t value = kTable[3][static_cast<unsigned char>(c)];
    if (value == kNone || padding > 0) return std::nullopt;
    bits |= value << (18 - 6 * letters);
    if (++letters < 4) continue;
    put(bits, to);
    to += 3;
    bits = 0;
    letters = 0;
  }
  if (letters == 0) return static_cast<size_t>(to - bytes);
  if (letters + padding != 4) return std::nullopt;
  put(bits, to);
  return static_cast<size_t>(to - bytes) + letters - 1;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kLetters[word >> 6 * (3 - k) & 63] : '=';
  }
  return text;
}

}  // namespace plimsoll
