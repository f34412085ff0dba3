#include "image/codecs/orientation.h"

#include <array>
#include <string_view>
#include <utility>

#include "image/codecs/codecs.h"

namespace plimsoll::image::codecs {
namespace {

constexpr uint32_t kOrientationTag = 274;
constexpr uint32_t kShort = 3;

Orientation checked(uint32_t value) {
  return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation{1};
}

struct Tiff {
  Bytes bytes;
  bool big = false;

  uint32_t number(size_t at, size_t count) const {
    ByteReader reader(bytes, "EXIF");
    reader.skip(at);
    return big ? reader.big(count) : reader.little(count);
  }
};

Orientation read_tiff(const Tiff& tiff) {
  const size_t directory = tiff.number(4, 4);
  const uint32_t entries = tiff.number(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    if (tiff.number(entry, 2) != kOrientationTag) continue;
    const bool is_short = tiff.number(entry + 2, 2) == kShort;
    return checked(tiff.number(entry + 8, is_short ? 2 : 4));
  }
  return 1;
}

}  // namespace

Orientation exif_orientation(Bytes exif) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  const std::string_view text(reinterpret_cast<const char*>(exif.data()), exif.size());
  if (text.starts_with(kPrefix)) return exif_orientation(exif.subspan(kPrefix.size()));
  if (!text.starts_with("II") && !text.starts_with("MM")) return 1;
  try {
    return read_tiff({exif, text[0] == 'M'});
  } catch (const ImageError&) {
    return 1;  // broken metadata does not make an image unreadable
  }
}

Orientation xmp_orientation(Bytes xmp) {
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  constexpr std::string_view kName = "tiff:Orientation";
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
    std::string_view rest = text.substr(at + kName.size());
    if (rest.starts_with("=\"")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('>')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    if (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      return checked(static_cast<uint32_t>(rest[0] - '0'));
    }
  }
  return 1;
}

Image turn(Image image, Orientation orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  // Steps through the stored image while the turned one is written in order.
  const int64_t right = 3;
  const int64_t down = 3 * image.size.width;
  const int64_t last_column = right * (image.size.width - 1);
  const int64_t last_row = down * (image.size.height - 1);
  struct Walk {
    int64_t first, column,
        row;  // bytes: of the first pixel, to the next one in a row, to the next row
  };
  const std::array<Walk, 9> walks = {{{},
                                      {},
                                      {last_column, -right, down},
                                      {last_row + last_column, -right, -down},
                                      {last_row, right, -down},
                                      {0, down, right},
                                      {last_row, -down, right},
                                      {last_row + last_column, -down, -right},
                                      {last_column, down, -right}}};
  const Walk& walk = walks[orientation];
  Image turned = blank(orientation >= 5 ? Size{image.size.height, image.size.width} : image.size);
  turned.clear = image.clear;
  uint8_t* to = turned.rgb.data();
  for (int64_t y = 0; y < turned.size.height; ++y) {
    for (int64_t x = 0; x < turned.size.width; ++x) {
      const uint8_t* from = image.rgb.data() + walk.first + y * walk.row + x * walk.column;
      for (int c = 0; c < 3; ++c) *to++ = from[c];
    }
  }
  return turned;
}

}  // namespace plimsoll::image::codecs
