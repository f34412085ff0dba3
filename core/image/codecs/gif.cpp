#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "image/codecs/codecs.h"
#include "image/codecs/gif_strings.h"

namespace plimsoll::image::codecs {
namespace {

constexpr size_t kScreen = 13;         // bytes of signature and screen descriptor
constexpr uint8_t kHasPalette = 0x80;  // of a descriptor's flags
constexpr uint8_t kExtension = 0x21, kFrame = 0x2C;

void skip_palette(ByteReader& reader, uint8_t flags) {
  if (flags & kHasPalette) reader.skip(size_t{3} << ((flags & 7) + 1));
}

/// giflib reads from here.
struct Source {
  Bytes rest;
  bool at_end = false;

  static int read(GifFileType* gif, GifByteType* to, int count) {
    auto& source = *static_cast<Source*>(gif->UserData);
    const size_t some = std::min(static_cast<size_t>(count), source.rest.size());
    if (some < static_cast<size_t>(count)) source.at_end = true;
    std::copy_n(source.rest.begin(), some, to);
    source.rest = source.rest.subspan(some);
    return static_cast<int>(some);
  }
};

class GifReader {
 public:
  explicit GifReader(Bytes file) : source_{file} {
    int error = 0;
    gif_ = DGifOpen(&source_, Source::read, &error);
    if (gif_ == nullptr) stop(error);
  }
  ~GifReader() { DGifCloseFile(gif_, nullptr); }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  /// Reads up to the first frame's pixels, and notes a clear colour of the extensions before it.
  void seek_frame() {
    while (true) {
      GifRecordType record = UNDEFINED_RECORD_TYPE;
      check(DGifGetRecordType(gif_, &record));
      if (record == TERMINATE_RECORD_TYPE) fail_broken("GIF", "has no frame");
      if (record == IMAGE_DESC_RECORD_TYPE) {
        check(DGifGetImageDesc(gif_));
        return;
      }
      if (record == EXTENSION_RECORD_TYPE) read_extension();
    }
  }
  [[nodiscard]] const GifImageDesc& frame() const { return gif_->Image; }
  [[nodiscard]] std::optional<uint8_t> clear() const { return clear_; }
  [[nodiscard]] const ColorMapObject* palette() const {
    return gif_->Image.ColorMap != nullptr ? gif_->Image.ColorMap : gif_->SColorMap;
  }
  /// Numbers of the frame's colours, as they are stored; the rest of its codes is passed over.
  std::vector<uint8_t> read_frame() {
    GifByteType* block = nullptr;
    int bits = 0;
    check(DGifGetCode(gif_, &bits, &block));
    bool first = true;
    GifStrings strings(bits, [&] {
      if (!std::exchange(first, false) && block != nullptr) check(DGifGetCodeNext(gif_, &block));
      return block == nullptr ? Bytes{} : Bytes(block + 1, block[0]);
    });
    const GifImageDesc& size = frame();
    auto numbers = strings.read(static_cast<size_t>(size.Width) * static_cast<size_t>(size.Height));
    while (block != nullptr) check(DGifGetCodeNext(gif_, &block));
    return numbers;
  }

 private:
  void read_extension() {
    int kind = 0;
    GifByteType* block = nullptr;
    check(DGifGetExtension(gif_, &kind, &block));
    while (block != nullptr) {
      if (kind == GRAPHICS_EXT_FUNC_CODE && block[0] >= 4) {
        clear_.reset();
        if (block[1] & 1) clear_ = block[4];
      }
      check(DGifGetExtensionNext(gif_, &block));
    }
  }
  void check(int status) const {
    if (status != GIF_OK) stop(gif_->Error);
  }
  [[noreturn]] void stop(int error) const {
    if (source_.at_end) fail_truncated("GIF");
    const char* why = GifErrorString(error);
    fail_broken("GIF", why != nullptr ? why : "is broken");
  }

  Source source_;
  GifFileType* gif_ = nullptr;
  std::optional<uint8_t> clear_;
};

/// A byte more than a colour has, so that four are written at a time.
using Palette = std::array<std::array<uint8_t, 4>, 256>;

/// Without a palette: shades of grey. Entries that it lacks are black, the clear one white.
Palette read_palette(const GifReader& reader) {
  Palette palette{};
  const ColorMapObject* colours = reader.palette();
  for (size_t i = 0; i < palette.size(); ++i) {
    if (colours == nullptr) {
      palette[i].fill(static_cast<uint8_t>(i));
    } else if (i < static_cast<size_t>(colours->ColorCount)) {
      palette[i] = {colours->Colors[i].Red, colours->Colors[i].Green, colours->Colors[i].Blue, 0};
    }
  }
  if (reader.clear()) palette[*reader.clear()].fill(255);
  return palette;
}

void to_rgb(std::span<const uint8_t> row, const Palette& palette, uint8_t* to) {
  for (size_t i = 0; i < row.size(); ++i, to += 3) {
    std::memcpy(to, palette[row[i]].data(), i + 1 < row.size() ? 4 : 3);
  }
}

/// Rows of a frame in the order in which they are stored.
template <typename F>
void for_each_row(const GifImageDesc& frame, F f) {
  if (!frame.Interlace) {
    for (int y = 0; y < frame.Height; ++y) f(y);
    return;
  }
  constexpr std::array<std::array<int, 2>, 4> kPasses = {{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};
  for (const auto& [first, step] : kPasses) {
    for (int y = first; y < frame.Height; y += step) f(y);
  }
}

}  // namespace

/// The screen, and what of the first frame lies beyond it, as Pillow has it.
Header read_gif_header(Bytes file) {
  ByteReader reader(file, "GIF");
  reader.skip(6);
  Header header;
  header.stored.width = reader.little(2);
  header.stored.height = reader.little(2);
  const uint8_t flags = reader.u8();
  reader.skip(kScreen - reader.at());
  skip_palette(reader, flags);
  uint8_t block = reader.u8();
  while (block == kExtension) {
    reader.skip(1);
    while (const uint8_t length = reader.u8()) reader.skip(length);
    block = reader.u8();
  }
  if (block != kFrame) fail_broken("GIF", "has no frame");
  const int64_t left = reader.little(2);
  const int64_t top = reader.little(2);
  header.stored.width = std::max<int64_t>(header.stored.width, left + reader.little(2));
  header.stored.height = std::max<int64_t>(header.stored.height, top + reader.little(2));
  header.memory_bytes = image_bytes(header.stored, 3 + 1);  // with numbers of colours
  return header;
}

Image decode_gif(Bytes file, const Header& header) {
  GifReader reader(file);
  reader.seek_frame();
  const GifImageDesc& frame = reader.frame();
  const Palette palette = read_palette(reader);
  Image image = blank(header.stored);
  if (frame.Left < 0 || frame.Top < 0 || frame.Width < 0 || frame.Height < 0 ||
      frame.Left + frame.Width > header.stored.width ||
      frame.Top + frame.Height > header.stored.height) {
    fail_broken("GIF", "the first frame stands outside the image");
  }
  // Around the frame: the clear colour, else the palette's first one.
  const auto& around = palette[reader.clear().value_or(0)];
  if (frame.Width < header.stored.width || frame.Height < header.stored.height) {
    for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = around[i % 3];
  }
  const std::vector<uint8_t> numbers = reader.read_frame();
  const auto width = static_cast<size_t>(frame.Width);
  std::span<const uint8_t> rest(numbers);
  for_each_row(frame, [&](int y) {
    to_rgb(rest.first(width), palette,
           image.rgb.data() + 3 * ((frame.Top + y) * header.stored.width + frame.Left));
    rest = rest.subspan(width);
  });
  return image;
}

}  // namespace plimsoll::image::codecs
