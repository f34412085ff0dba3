#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <optional>
#include <string>

#include "image/codecs/codecs.h"
#include "image/codecs/colour.h"
#include "image/codecs/png_rows.h"

namespace plimsoll::image::codecs {
namespace {

constexpr size_t kChunkHead = 8;  // length and name

/// Pixels as libpng hands them out, by their bytes: grey of 16 bits with the high byte first.
enum class Row : uint8_t { deep_gray = 2, rgb = 3, rgba = 4 };

/// libpng says what is wrong by leaving its call, as libjpeg does.
class PngReader {
 public:
  explicit PngReader(Bytes file) : file_(file), rest_(file) {
    png_ =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, [](png_structp, const char*) {});
    info_ = png_ != nullptr ? png_create_info_struct(png_) : nullptr;
    if (info_ == nullptr) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, this, read);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Rows come out as row() says.
  Size start() {
    guard([&] {
      png_set_user_limits(png_, 0x7FFFFFFF, 0x7FFFFFFF);  // the header's are checked already
      png_set_chunk_malloc_max(png_, 8u << 20);
      // Checksums are checked as Pillow has it: those of all chunks before the pixels, not those of
      // the pixels, which zlib checks.
      png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
      png_read_info(png_, info_);
      png_set_crc_action(png_, PNG_CRC_QUIET_USE, PNG_CRC_QUIET_USE);
      const int colour = png_get_color_type(png_, info_);
      const int depth = png_get_bit_depth(png_, info_);
      stored_colour_ = colour;
      stored_depth_ = depth;
      deep_gray_ = colour == PNG_COLOR_TYPE_GRAY && depth == 16;
      read_clear(colour, depth);
      if (!deep_gray_) png_set_strip_16(png_);
      if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      if (colour == PNG_COLOR_TYPE_PALETTE && png_get_valid(png_, info_, PNG_INFO_tRNS)) {
        png_set_tRNS_to_alpha(png_);
      }
      if (colour == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
      if (!(colour & PNG_COLOR_MASK_COLOR) && !deep_gray_) png_set_gray_to_rgb(png_);
      passes_ = png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  }
  [[nodiscard]] Row row() const {
    if (deep_gray_) return Row::deep_gray;
    return png_get_channels(png_, info_) == 4 ? Row::rgba : Row::rgb;
  }
  /// True when rows are stored as they come out, one behind the other.
  [[nodiscard]] bool is_plain() const {
    const int colour = png_get_color_type(png_, info_);
    return (stored_colour_ == PNG_COLOR_TYPE_RGB || stored_colour_ == PNG_COLOR_TYPE_RGBA) &&
           colour == stored_colour_ && stored_depth_ == 8 && passes_ == 1;
  }
  /// The first chunk of pixels and all behind it, while no row is read.
  [[nodiscard]] Bytes chunks() const { return file_.last(rest_.size() + kChunkHead); }
  /// The shade of grey, or the colour, that stands for none.
  [[nodiscard]] std::optional<uint8_t> clear_gray() const { return clear_gray_; }
  [[nodiscard]] std::optional<Colour> clear() const { return clear_; }
  [[nodiscard]] int passes() const { return passes_; }
  void read_row(uint8_t* row) {
    guard([&] { png_read_row(png_, row, nullptr); });
  }
  void finish() {
    guard([&] { png_read_end(png_, nullptr); });
  }

 private:
  /// Numbers of few bits and of 16 as Pillow takes them: the low byte, of one bit black or white.
  void read_clear(int colour, int depth) {
    png_color_16p number = nullptr;
    if ((colour != PNG_COLOR_TYPE_GRAY && colour != PNG_COLOR_TYPE_RGB) ||
        png_get_tRNS(png_, info_, nullptr, nullptr, &number) == 0 || number == nullptr) {
      return;
    }
    const auto byte = [depth](png_uint_16 value) {
      return static_cast<uint8_t>(depth == 1 && value != 0 ? 255 : value & 255);
    };
    if (colour == PNG_COLOR_TYPE_GRAY) {
      clear_gray_ = byte(number->gray);
    } else {
      clear_ = Colour{byte(number->red), byte(number->green), byte(number->blue)};
    }
  }
  static void fail(png_structp png, const char* message) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    const size_t length = std::min(std::string_view(message).size(), sizeof reader.message_ - 1);
    std::copy_n(message, length, reader.message_);
    reader.message_[length] = 0;
    std::longjmp(reader.jump_, 1);
  }
  static void read(png_structp png, png_bytep to, size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.rest_.size()) {
      reader.at_end_ = true;
      png_error(png, "end of file");
    }
    std::copy_n(reader.rest_.begin(), count, to);
    reader.rest_ = reader.rest_.subspan(count);
  }
  template <typename F>
  void guard(F f) {
    if (setjmp(jump_) == 0) {
      f();
      return;
    }
    if (at_end_) fail_truncated("PNG");
    fail_broken("PNG", message_);
  }

  Bytes file_, rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
  int stored_colour_ = 0, stored_depth_ = 0;
  bool deep_gray_ = false;
  std::optional<uint8_t> clear_gray_;
  std::optional<Colour> clear_;
  bool at_end_ = false;
  char message_[128] = {};
  std::jmp_buf jump_{};
};

/// Converts a row that is not RGB yet. 16-bit grey is clipped, as Pillow and so vLLM do it: shades
/// from 255 on are white.
void to_rgb(Row kind, const uint8_t* from, uint8_t* to, int64_t pixels) {
  if (kind == Row::rgba) return rgba_over_white(from, to, pixels);
  for (int64_t i = 0; i < pixels; ++i, from += 2, to += 3) {
    std::fill_n(to, 3, from[0] > 0 ? uint8_t{255} : from[1]);
  }
}

/// Decodes 8-bit RGB and RGBA images that are not interlaced, as most are.
Image read_plain(const PngReader& reader, Size size) {
  Image image = blank(size);
  const Row kind = reader.row();
  const auto channels = static_cast<size_t>(kind);
  const size_t stride = static_cast<size_t>(size.width) * channels;
  PngRows rows(reader.chunks(), size.width, channels);
  std::vector<uint8_t> above(stride + 1), row(kind == Row::rgba ? stride + 1 : 0);
  const uint8_t* before = above.data();
  for (int64_t y = 0; y < size.height; ++y) {
    uint8_t* to = image.rgb.data() + 3 * y * size.width;
    if (kind == Row::rgb) {
      rows.read(before, to);
      before = to;
      continue;
    }
    rows.read(above.data(), row.data());
    to_rgb(kind, row.data(), to, size.width);
    std::swap(above, row);
  }
  return image;
}

/// Decodes any image with libpng. In interlaced images each pass fills in some pixels, so all
/// rows are kept until the last pass.
Image read_image(PngReader& reader, Size size) {
  Image image = blank(size);
  const Row kind = reader.row();
  const bool whole = reader.passes() > 1;
  const auto stride = static_cast<size_t>(size.width) * static_cast<size_t>(kind);
  const bool direct = kind == Row::rgb;
  std::vector<uint8_t> rows(direct ? 0 : stride * (whole ? static_cast<size_t>(size.height) : 1));
  for (int pass = 0; pass < reader.passes(); ++pass) {
    for (int64_t y = 0; y < size.height; ++y) {
      uint8_t* to = image.rgb.data() + 3 * y * size.width;
      uint8_t* row = direct ? to : rows.data() + (whole ? static_cast<size_t>(y) * stride : 0);
      reader.read_row(row);
      if (pass + 1 < reader.passes()) continue;
      if (!direct) to_rgb(kind, row, to, size.width);
      if (const auto shade = reader.clear_gray()) {
        std::replace(to, to + 3 * size.width, *shade, uint8_t{255});
      }
    }
  }
  return image;
}

}  // namespace

Image decode_png(Bytes file, const Header& header) {
  PngReader reader(file);
  if (reader.start() != header.stored) fail_broken("PNG", "has two sizes");
  Image image;
  if (reader.is_plain()) {
    image = read_plain(reader, header.stored);
  } else {
    image = read_image(reader, header.stored);
    reader.finish();
  }
  image.clear = reader.clear();
  return image;
}

}  // namespace plimsoll::image::codecs
