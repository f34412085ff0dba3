#include <fmt/format.h>

#include "image/codecs/codecs.h"

namespace plimsoll::image::codecs {

void fail_truncated(std::string_view format) {
  throw ImageError(code::truncated, fmt::format("{}: the file is cut short", format));
}

void fail_broken(std::string_view format, std::string_view why) {
  throw ImageError(code::unreadable, fmt::format("{}: {}", format, why));
}

Bytes ByteReader::take(size_t count) {
  if (count > left()) fail_truncated(format_);
  at_ += count;
  return bytes_.subspan(at_ - count, count);
}

uint32_t ByteReader::big(size_t count) {
  uint32_t value = 0;
  for (const uint8_t byte : take(count)) value = value << 8 | byte;
  return value;
}

uint32_t ByteReader::little(size_t count) {
  uint32_t value = 0;
  uint32_t shift = 0;
  for (const uint8_t byte : take(count)) {
    value |= static_cast<uint32_t>(byte) << shift;
    shift += 8;
  }
  return value;
}

}  // namespace plimsoll::image::codecs
