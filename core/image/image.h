// Pictures as the processors get them, and what is wrong with those that cannot be had.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "image/levels.h"

namespace plimsoll::image {

using Bytes = std::span<const uint8_t>;

struct Size {
  int64_t width = 0;
  int64_t height = 0;
  friend bool operator==(const Size&, const Size&) = default;
};

using Colour = std::array<uint8_t, 3>;

/// RGB, 8 bits, row-major [height, width, 3].
struct Image {
  Size size;
  Levels rgb;
  /// Which of its colours stands for none (of RGB PNGs): transformers' processors see white there.
  std::optional<Colour> clear = std::nullopt;
};

/// Rows of a picture, in somebody else's memory.
struct Rows {
  Size size;
  const uint8_t* rgb = nullptr;
  int64_t readable = 0;  // bytes from `rgb` on, which may be more than the rows have
};

/// Memory of a picture with so many bytes a pixel.
inline size_t picture_bytes(Size size, size_t bytes_per_pixel) {
  return static_cast<size_t>(size.width) * static_cast<size_t>(size.height) * bytes_per_pixel;
}

/// An RGB picture to be filled: all of it.
inline Image blank(Size size) {
  return {size, Levels(picture_bytes(size, 3))};
}

/// What may be wrong with a picture: the codes that output lines carry.
namespace code {
inline constexpr std::string_view no_images = "no_images";  // the model takes none of its kind
inline constexpr std::string_view unreadable = "image_unreadable";
inline constexpr std::string_view truncated = "image_truncated";
inline constexpr std::string_view too_large = "image_too_large";
inline constexpr std::string_view aspect_ratio = "image_aspect_ratio";
}  // namespace code

/// Costs the request that the picture belongs to.
class ImageError : public std::runtime_error {
 public:
  ImageError(std::string_view code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] std::string_view code() const { return code_; }

 private:
  std::string_view code_;  // one of image::code
};

/// What one picture may cost, so that no file of a few kilobytes takes the machine.
struct Limits {
  int64_t side = 65535;
  size_t file_bytes = size_t{64} << 20;
  /// Decoded, with all that its decoder holds beside it.
  size_t memory_bytes = size_t{192} << 20;
};

}  // namespace plimsoll::image
