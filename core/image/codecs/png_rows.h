// Decodes the rows of most PNGs: 8 bits a channel, RGB or RGBA, from the top down. libpng's filters
// take a byte at a time, and half of the time that such an image takes.
#pragma once

#include <memory>
#include <vector>

#include "image/codecs/codecs.h"

namespace plimsoll::image::codecs {

/// The prediction of a row's bytes (PNG specification, section 9); the file stores the difference.
enum class PngFilter : uint8_t { none, left, above, average, paeth };

/// A row of `bytes` bytes. One more byte can be read after `stored` and `above`.
struct PngRow {
  const uint8_t* stored = nullptr;
  const uint8_t* above = nullptr;  // the row before, unfiltered; zeros for the first
  uint8_t* to = nullptr;
  size_t bytes = 0;
};

/// Reverses the filter of a row, for pixels of 3 or 4 bytes.
void unfilter(PngFilter filter, size_t channels, const PngRow& row);
/// Reverses the filter of a row byte by byte, as in the specification.
void unfilter_plainly(PngFilter filter, size_t channels, const PngRow& row);

/// The rows that zlib packed into the IDAT chunks at the beginning of `chunks`. All chunks' ends
/// have been checked; checksums, zlib's too, are ignored, as Pillow ignores them.
class PngRows {
 public:
  PngRows(Bytes chunks, int64_t width, size_t channels);
  ~PngRows();
  PngRows(const PngRows&) = delete;
  PngRows& operator=(const PngRows&) = delete;

  /// Reads the next row; one more byte can be read after the row above. Throws ImageError.
  void read(const uint8_t* above, uint8_t* to);

 private:
  struct Stream;

  static constexpr size_t kSlack = 1;

  void next_chunk();
  void fill(uint8_t* to, size_t count);

  ByteReader chunks_;
  size_t channels_;
  std::unique_ptr<Stream> stream_;
  std::vector<uint8_t> row_;  // a row, and kSlack behind it
};

}  // namespace plimsoll::image::codecs
