#include <string_view>

#include "image/codecs/codecs.h"
#include "image/codecs/orientation.h"

namespace plimsoll::image::codecs {
namespace {

constexpr size_t kSignature = 8;
constexpr uint8_t kAdam7 = 1;

/// RGB, and of interlaced images all rows as RGBA, beside libpng's two rows.
void read_ihdr(ByteReader chunk, Header& header) {
  header.stored.width = chunk.big(4);
  header.stored.height = chunk.big(4);
  chunk.skip(4);
  const bool interlaced = chunk.u8() == kAdam7;
  header.memory_bytes = image_bytes(header.stored, interlaced ? 3 + 4 : 3) +
                        image_bytes({header.stored.width, 1}, 3 * 8);
}

/// The text of an uncompressed iTXt chunk of XMP; nothing of other chunks.
Bytes xmp_of(Bytes chunk) {
  constexpr std::string_view kKeyword("XML:com.adobe.xmp\0\0\0", 20);  // keyword, flag, method
  const std::string_view text(reinterpret_cast<const char*>(chunk.data()), chunk.size());
  return text.starts_with(kKeyword) ? chunk.subspan(kKeyword.size()) : Bytes{};
}

}  // namespace

Header read_png_header(Bytes file) {
  ByteReader reader(file, "PNG");
  reader.skip(kSignature);
  Header header;
  Bytes exif, xmp;
  while (reader.left() > 0) {
    const uint32_t length = reader.big(4);
    const Bytes name = reader.take(4);
    const std::string_view kind(reinterpret_cast<const char*>(name.data()), name.size());
    if (header.memory_bytes == 0 && kind != "IHDR") fail_broken("PNG", "does not begin with IHDR");
    const Bytes chunk = reader.take(length);
    reader.skip(4);  // checksum
    if (kind == "IHDR" && header.memory_bytes == 0) read_ihdr(ByteReader(chunk, "PNG"), header);
    if (kind == "eXIf") exif = chunk;
    if (kind == "iTXt" && !xmp_of(chunk).empty()) xmp = xmp_of(chunk);
    if (kind == "IEND") break;
    if (reader.left() == 0) fail_truncated("PNG");
  }
  if (header.memory_bytes == 0) fail_truncated("PNG");
  header.orientation = exif_orientation(exif);
  if (header.orientation == 1) header.orientation = xmp_orientation(xmp);
  return header;
}

}  // namespace plimsoll::image::codecs
