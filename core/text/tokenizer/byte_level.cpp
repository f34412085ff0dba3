#include "text/tokenizer/byte_level.h"

#include "text/unicode/unicode.h"

namespace plimsoll::text::byte_level {
namespace {

constexpr size_t kEnd = 0x144;  // the characters lie below

constexpr std::array<int16_t, kEnd> bytes_of_characters() {
  std::array<int16_t, kEnd> table{};
  for (auto& byte : table) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) table[characters()[byte]] = static_cast<int16_t>(byte);
  return table;
}

constexpr std::array<int16_t, kEnd> kBytes = bytes_of_characters();

}  // namespace

bool append_bytes(std::string& out, std::string_view token) {
  const size_t before = out.size();
  for (size_t at = 0; at < token.size();) {
    const char32_t c = next_character(token, at);
    const int16_t byte = c < kEnd ? kBytes[c] : int16_t{-1};
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out += static_cast<char>(byte);
  }
  return true;
}

}  // namespace plimsoll::text::byte_level
