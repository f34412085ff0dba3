#include <algorithm>
#include <stdexcept>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "fuzz/targets.h"
#include "image/decode.h"
#include "image/processor.h"

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
    const image::Image image = image::decode(view, kLimits);
    const auto pixels = static_cast<size_t>(image.size.width * image.size.height);
    if (image.rgb.size() != 3 * pixels || image.size != header.size()) {
      throw std::logic_error("an image is not as large as its header says");
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

/// The kind of processor, width and height in two bytes each, then settings.
void preparation(std::string_view bytes) {
  constexpr size_t kHead = 5;
  constexpr int64_t kMostBytes = int64_t{1} << 20;
  if (bytes.size() < kHead) return;
  const auto at = [&](size_t i) { return static_cast<int64_t>(static_cast<uint8_t>(bytes[i])); };
  const auto kind = static_cast<image::ProcessorKind>(at(0) % 6);
  const image::Size size{1 + at(1) + 256 * at(2), 1 + at(3) + 256 * at(4)};
  const int64_t tokens = kind == image::ProcessorKind::idefics3 ? 0 : 256;
  try {
    const auto processor = image::make_processor(kind, {.shuffle = 2, .tokens_per_tile = tokens},
                                                 Json::object(), parse_json(bytes.substr(kHead)));
    const image::Layout layout = processor->layout(size);
    if (size.width * size.height > kMostBytes / 3 || layout.levels() > kMostBytes) return;
    const image::Pixels pixels = processor->process(image::blank(size));
    if (std::ssize(pixels.levels) != layout.levels()) {
      throw std::logic_error("a prepared image is not as large as its layout says");
    }
  } catch (const image::ImageError&) {
  } catch (const image::SettingsError&) {
  } catch (const JsonError&) {
  } catch (const Error&) {
  }
}

void webp(std::string_view bytes) {
  std::string riff(bytes);
  if (riff.size() >= 4) riff.replace(0, 4, "RIFF");
  decode("WEBP", 8, riff);
}

}  // namespace plimsoll::fuzz
