// The four codecs. Our own readers read headers, and so bound what the libraries are given; pixels
// come from libjpeg-turbo, libpng, libwebp and giflib.
#pragma once

#include "image/decode.h"

namespace plimsoll::image::codecs {

// Headers: size, orientation, memory that decoding takes. Nothing is decoded.
Header read_jpeg_header(Bytes file);
Header read_png_header(Bytes file);
Header read_webp_header(Bytes file);
Header read_gif_header(Bytes file);

// Decode pixels as stored, without turning them. The header is that of the same bytes, within the
// limits.
Image decode_jpeg(Bytes file, const Header& header);
Image decode_png(Bytes file, const Header& header);
Image decode_webp(Bytes file, const Header& header);
Image decode_gif(Bytes file, const Header& header);

[[noreturn]] void fail_truncated(std::string_view format);
[[noreturn]] void fail_broken(std::string_view format, std::string_view why);

/// Reads numbers of a file; reading past its end throws ImageError(truncated).
class ByteReader {
 public:
  ByteReader(Bytes bytes, std::string_view format) : bytes_(bytes), format_(format) {}
  [[nodiscard]] size_t at() const { return at_; }
  [[nodiscard]] size_t left() const { return bytes_.size() - at_; }
  Bytes take(size_t count);
  void skip(size_t count) { (void)take(count); }
  uint8_t u8() { return take(1)[0]; }
  uint32_t big(size_t count);
  uint32_t little(size_t count);

 private:
  Bytes bytes_;
  std::string_view format_;
  size_t at_ = 0;
};

}  // namespace plimsoll::image::codecs
