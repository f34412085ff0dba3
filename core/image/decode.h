// From a file's bytes to RGB as vLLM has it: the first frame, turned as EXIF says, transparency
// over white.
#pragma once

#include "image/image.h"

namespace plimsoll::image {

enum class Format : uint8_t { jpeg, png, webp, gif };

/// How a picture is to be turned (EXIF tag 274): 1 as it is, 2 mirrored, 3 by 180 degrees, 4 upside
/// down, 5 transposed, 6 by 90 degrees clockwise, 7 transversed, 8 by 270.
using Orientation = uint8_t;

/// What a file says of itself before its pixels.
struct Header {
  Format format = Format::png;
  Size stored;
  Orientation orientation = 1;
  size_t memory_bytes = 0;  // that decoding holds at one time, the result included

  /// Width and height as they are seen.
  [[nodiscard]] Size size() const {
    return orientation >= 5 ? Size{stored.height, stored.width} : stored;
  }
};

/// Reads a header and no pixel. Throws ImageError: of no known format, cut short, over the limits.
Header read_header(Bytes file, const Limits& limits = {});

/// Throws ImageError as read_header does, and where the pixels are broken.
Image decode(Bytes file, const Limits& limits = {});

}  // namespace plimsoll::image
