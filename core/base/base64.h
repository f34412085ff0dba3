// Base64 (RFC 4648, section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plimsoll {

/// Upper bound of the bytes in `letters` characters of base64.
inline size_t base64_room(size_t letters) {
  return letters / 4 * 3 + 3;
}

/// Decodes to at most base64_room() bytes and returns their number; nothing where the text is not
/// base64. Blanks and line ends among the letters are skipped; padding is required.
std::optional<size_t> decode_base64(std::string_view text, uint8_t* bytes);

/// Bytes as letters, padded.
std::string encode_base64(std::string_view bytes);

}  // namespace plimsoll
