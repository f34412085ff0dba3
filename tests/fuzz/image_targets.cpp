#include <algorithm>
#include <stdexcept>
#include <string>

#include "fuzz/targets.h"
#include "image/decode.h"

namespace plimsoll::fuzz {
namespace {

/// Bytes that begin as a format does reach its decoder.
void decode(std::string_view magic, size_t at, std::string_view bytes) {
  std::string file(bytes);
  if (file.size() < at + magic.size()) return;
  std::ranges::copy(magic, file.begin() + static_cast<std::ptrdiff_t>(at));
  const image::Bytes view{reinterpret_cast<const uint8_t*>(file.data()), file.size()};
  constexpr image::Limits kLimits{.side = 4096, .memory_bytes = size_t{8} << 20};
  try {
    const image::Header header = image::read_header(view, kLimits);
    const image::Image picture = image::decode(view, kLimits);
    const auto pixels = static_cast<size_t>(picture.size.width * picture.size.height);
    if (picture.rgb.size() != 3 * pixels || picture.size != header.size()) {
      throw std::logic_error("a picture is not as large as its header says");
    }
  } catch (const image::ImageError&) {
  }
}

}  // namespace

void gif(std::string_view bytes) {
  decode("GIF89a", 0, bytes);
}

void jpeg(std::string_view bytes) {
  decode("\xFF\xD8\xFF", 0, bytes);
}

void png(std::string_view bytes) {
  decode("\x89PNG\r\n\x1a\n", 0, bytes);
}

void webp(std::string_view bytes) {
  std::string riff(bytes);
  if (riff.size() >= 4) riff.replace(0, 4, "RIFF");
  decode("WEBP", 8, riff);
}

}  // namespace plimsoll::fuzz
