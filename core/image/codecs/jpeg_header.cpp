#include <algorithm>
#include <string_view>

#include "image/codecs/codecs.h"
#include "image/codecs/orientation.h"

namespace plimsoll::image::codecs {
namespace {

constexpr uint8_t kRestart0 = 0xD0, kStartOfImage = 0xD8, kEndOfImage = 0xD9, kStartOfScan = 0xDA,
                  kApp1 = 0xE1, kTemporary = 0x01;

bool stands_alone(uint8_t marker) {
  return marker == kTemporary || (marker >= kRestart0 && marker <= kStartOfImage);
}

/// SOF0 to SOF15 but for DHT, JPG and DAC.
bool is_frame(uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/// The next marker; bytes before it are skipped, as libjpeg does.
uint8_t next_marker(ByteReader& reader) {
  while (reader.u8() != 0xFF) {
  }
  uint8_t marker = 0xFF;
  while (marker == 0xFF) marker = reader.u8();
  return marker;
}

bool is_progressive(uint8_t marker) {
  return marker == 0xC2 || marker == 0xC6 || marker == 0xCA || marker == 0xCE;
}

/// Reads the size of the image, and the memory that a decoder needs. Where pixels come in several
/// scans a decoder holds coefficients beside the RGB rows, 2 bytes a sample. A baseline file may
/// have several scans too: only its first one is looked at.
void read_frame(ByteReader segment, uint8_t marker, Header& header) {
  segment.skip(1);
  header.stored.height = segment.big(2);
  header.stored.width = segment.big(2);
  const uint32_t components = segment.u8();
  size_t bytes_per_pixel = 3;
  if (is_progressive(marker)) bytes_per_pixel += size_t{2} * components;
  header.memory_bytes = image_bytes(header.stored, bytes_per_pixel);
}

struct Metadata {
  Bytes exif, xmp;

  void take(Bytes segment) {
    constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    const std::string_view text(reinterpret_cast<const char*>(segment.data()), segment.size());
    if (text.starts_with(std::string_view("Exif\0\0", 6)) && exif.empty()) exif = segment;
    if (text.starts_with(kXmp) && xmp.empty()) xmp = segment.subspan(kXmp.size());
  }
  Orientation orientation() const {
    const Orientation told = exif_orientation(exif);
    return told != 1 ? told : xmp_orientation(xmp);
  }
};

}  // namespace

Header read_jpeg_header(Bytes file) {
  ByteReader reader(file, "JPEG");
  reader.skip(2);
  Header header;
  Metadata metadata;
  size_t components_of_frame = 0;
  while (true) {
    const uint8_t marker = next_marker(reader);
    if (stands_alone(marker)) continue;
    if (marker == kEndOfImage) fail_broken("JPEG", "has no pixels");
    const uint32_t length = reader.big(2);
    if (length < 2) fail_broken("JPEG", "a segment has no length");
    const Bytes segment = reader.take(length - 2);
    if (marker == kApp1) metadata.take(segment);
    if (is_frame(marker)) {
      read_frame(ByteReader(segment, "JPEG"), marker, header);
      components_of_frame = segment.size() > 5 ? segment[5] : 0;
    }
    if (marker != kStartOfScan) continue;
    if (header.memory_bytes == 0) fail_broken("JPEG", "has no frame before its first scan");
    // A scan of some of the components: the others come later, and coefficients wait for them.
    if (!segment.empty() && segment[0] < components_of_frame) {
      header.memory_bytes =
          std::max(header.memory_bytes, image_bytes(header.stored, 3 + 2 * components_of_frame));
    }
    header.orientation = metadata.orientation();
    return header;
  }
}

}  // namespace plimsoll::image::codecs
