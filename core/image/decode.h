// Decodes a file's bytes to RGB as vLLM does: the first frame, turned as EXIF says, transparency
// over white.
#pragma once

#include "image/image.h"

namespace plimsoll::image {

enum class Format : uint8_t { jpeg, png, webp, gif };

/// Orientation of an image (EXIF tag 274): 1 as it is, 2 mirrored, 3 by 180 degrees, 4 upside
/// down, 5 transposed, 6 by 90 degrees clockwise, 7 transversed, 8 by 270.
using Orientation = uint8_t;

/// The header of a file, read before its pixels.
struct Header {
  Format format = Format::png;
  Size stored;
  Orientation orientation = 1;
  size_t memory_bytes = 0;  // held at one time while decoding, the result included

  /// Width and height as the image is shown.
  [[nodiscard]] Size size() const {
    return orientation >= 5 ? Size{stored.height, stored.width} : stored;
  }
};

/// Reads a header and no pixel. Throws ImageError for an unknown format, a truncated file, and
/// limits exceeded.
Header read_header(Bytes file, const Limits& limits = {});

/// Decodes the pixels. Throws ImageError as read_header does, and where the pixels are broken.
Image decode(Bytes file, const Limits& limits = {});

}  // namespace plimsoll::image
