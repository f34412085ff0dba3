// Images as the processors get them, and the errors of images that cannot be read.
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
  /// The colour that means transparent (RGB PNGs): transformers' processors see white there.
  std::optional<Colour> clear = std::nullopt;
};

/// Rows of an image, in memory that somebody else owns.
struct Rows {
  Size size;
  const uint8_t* rgb = nullptr;
  int64_t readable = 0;  // bytes from `rgb` on, which may be more than the rows have
};

/// Memory of an image in bytes.
inline size_t image_bytes(Size size, size_t bytes_per_pixel) {
  return static_cast<size_t>(size.width) * static_cast<size_t>(size.height) * bytes_per_pixel;
}

/// An RGB image of this size, its pixels not initialised.
inline Image blank(Size size) {
  return {size, Levels(image_bytes(size, 3))};
}

/// Error codes of images, as output lines carry them.
namespace code {
inline constexpr std::string_view no_images = "no_images";  // the model takes none of its kind
inline constexpr std::string_view unreadable = "image_unreadable";
inline constexpr std::string_view truncated = "image_truncated";
inline constexpr std::string_view too_large = "image_too_large";
inline constexpr std::string_view aspect_ratio = "image_aspect_ratio";
}  // namespace code

/// An error of one image; fails the request that the image belongs to.
class ImageError : public std::runtime_error {
 public:
  ImageError(std::string_view code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  [[nodiscard]] std::string_view code() const { return code_; }

 private:
  std::string_view code_;  // one of image::code
};

/// Limits of one image, so that no file of a few kilobytes takes the machine.
struct Limits {
  int64_t side = 65535;
  size_t file_bytes = size_t{64} << 20;
  /// Memory of the decoded image, with all that its decoder holds beside it.
  size_t memory_bytes = size_t{192} << 20;
};

}  // namespace plimsoll::image
