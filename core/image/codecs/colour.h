// Fixed-point colour arithmetic as Pillow does it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll::image::codecs {

/// product / 255, rounded: exact for products of 8-bit numbers.
inline uint8_t over_255(uint32_t product) {
  const uint32_t v = product + 128;
  return static_cast<uint8_t>(((v >> 8) + v) >> 8);
}

/// A channel of opacity `alpha` over white.
inline uint8_t over_white(uint32_t colour, uint32_t alpha) {
  return over_255(colour * alpha + 255 * (255 - alpha));
}

/// A channel of a print in CMYK: `ink` of its colour and `black`, both 0 for none.
inline uint8_t from_ink(uint32_t ink, uint32_t black) {
  const int left = static_cast<int>(255 - black);
  return static_cast<uint8_t>(std::max(0, left - over_255(ink * (255 - black))));
}

/// RGBA pixels to RGB over white. `to` may be `from`: a pixel is read before one is written.
inline void rgba_over_white(const uint8_t* from, uint8_t* to, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, from += 4, to += 3) {
    const uint32_t alpha = from[3];
    for (int c = 0; c < 3; ++c) to[c] = over_white(from[c], alpha);
  }
}

}  // namespace plimsoll::image::codecs
