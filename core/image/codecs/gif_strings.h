// Decodes the pixels of a GIF's frame from its LZW codes. giflib returns pixels one by one from a
// stack; here a code is a piece of what has been written already, and is copied from there.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "image/codecs/codecs.h"

namespace plimsoll::image::codecs {

/// Codes of growing width, the low bits first (GIF89a, appendix F).
class GifStrings {
 public:
  /// Returns the next bytes of codes; none after the last. May throw ImageError.
  using NextBlock = std::function<Bytes()>;

  /// `bits`: bits of a colour's number, 1 to 8.
  GifStrings(int bits, NextBlock next_block);

  /// Decodes `count` numbers of colours. Throws ImageError where the codes end early, or are
  /// invalid.
  std::vector<uint8_t> read(size_t count);

 private:
  static constexpr uint32_t kCodes = 4096;

  struct Piece {
    uint32_t first = 0;
    uint32_t length = 0;
  };

  uint32_t take_code();
  void refill();
  void start_anew();
  /// The piece that a code stands for, if it is not a colour.
  [[nodiscard]] Piece find(uint32_t code) const;
  void learn();

  NextBlock next_block_;
  uint32_t clear_;
  uint32_t bits_;   // of a colour
  uint32_t width_;  // of codes
  uint32_t next_;   // the code that the next piece gets
  Piece last_;      // none after a clear code
  std::array<Piece, kCodes> pieces_{};
  Bytes block_;
  uint64_t taken_ = 0;  // bits of blocks that are not yet in a code
  uint32_t taken_bits_ = 0;
};

}  // namespace plimsoll::image::codecs
