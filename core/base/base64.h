// Base64 (RFC 4648, section 4) to bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

/// Room for what so much text may hold.
inline size_t base64_room(size_t letters) {
  return letters / 4 * 3 + 3;
}

/// Writes at most base64_room() bytes and returns how many there are; nothing where the text is no
/// base64. Blanks and line ends among the letters are passed over; padding must be there.
std::optional<size_t> decode_base64(std::string_view text, uint8_t* bytes);

}  // namespace plimsoll
