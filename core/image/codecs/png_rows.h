// Rows of PNGs as most are stored: 8 bits a channel, RGB or RGBA, from the top down. libpng's
// filters take a byte at a time, and half of the time that such a picture takes.
#pragma once

#include <memory>
#include <vector>

#include "image/codecs/codecs.h"

namespace plimsoll::image::codecs {

/// How a row's bytes are foretold (PNG specification, section 9); stored is what they differ by.
enum class PngFilter : uint8_t { none, left, above, average, paeth };

/// A row of `bytes` bytes. Behind `stored` and `above` one more can be read.
struct PngRow {
  const uint8_t* stored = nullptr;
  const uint8_t* above = nullptr;  // the row before, unfiltered; zeros for the first
  uint8_t* to = nullptr;
  size_t bytes = 0;
};

/// Of pixels of 3 or 4 bytes.
void unfilter(PngFilter filter, size_t channels, const PngRow& row);
/// As the specification says it, byte by byte.
void unfilter_plainly(PngFilter filter, size_t channels, const PngRow& row);

/// What zlib packed into the IDAT chunks that `chunks` begins with. The chunks' ends are known to
/// be there; their checksums and zlib's are not looked at, as Pillow does not.
class PngRows {
 public:
  PngRows(Bytes chunks, int64_t width, size_t channels);
  ~PngRows();
  PngRows(const PngRows&) = delete;
  PngRows& operator=(const PngRows&) = delete;

  /// The next row; one byte more can be read behind the one above. Throws ImageError.
  void read(const uint8_t* above, uint8_t* to);

 private:
  struct Stream;

  static constexpr size_t kSlack = 1;

  void next_chunk();
  void fill(uint8_t* to, size_t count);

  ByteReader chunks_;
  size_t channels_;
  std::unique_ptr<Stream> stream_;
  std::vector<uint8_t> row_;  // and kSlack
};

}  // namespace plimsoll::image::codecs
