#include "image/codecs/png_rows.h"

#include <zlib.h>

namespace plimsoll::image::codecs {
namespace {

constexpr std::string_view kNotEnough = "Not enough image data";  // libpng's words

}  // namespace

struct PngRows::Stream : z_stream {
  Stream() : z_stream{} {
    if (inflateInit(this) != Z_OK) throw std::bad_alloc();
  }
  ~Stream() { inflateEnd(this); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

PngRows::PngRows(Bytes chunks, int64_t width, size_t channels)
    : chunks_(chunks, "PNG"),
      channels_(channels),
      stream_(std::make_unique<Stream>()),
      row_(static_cast<size_t>(width) * channels + kSlack) {}

PngRows::~PngRows() = default;

/// Moves to the next chunk of pixels. Four bytes of checksum follow a chunk's bytes.
void PngRows::next_chunk() {
  const bool first = chunks_.at() == 0;
  if (!first) chunks_.skip(4);
  const uint32_t length = chunks_.big(4);
  const Bytes name = chunks_.take(4);
  const std::string_view kind(reinterpret_cast<const char*>(name.data()), name.size());
  if (kind != "IDAT") fail_broken("PNG", kNotEnough);
  const Bytes chunk = chunks_.take(length);
  stream_->next_in = const_cast<uint8_t*>(chunk.data());  // zlib only reads
  stream_->avail_in = length;
}

void PngRows::read(const uint8_t* above, uint8_t* to) {
  uint8_t filter = 0;
  fill(&filter, 1);
  const size_t bytes = row_.size() - kSlack;
  fill(row_.data(), bytes);
  if (filter > static_cast<uint8_t>(PngFilter::paeth)) {
    fail_broken("PNG", "bad adaptive filter value");
  }
  unfilter(static_cast<PngFilter>(filter), channels_, {row_.data(), above, to, bytes});
}

void PngRows::fill(uint8_t* to, size_t count) {
  stream_->next_out = to;
  stream_->avail_out = static_cast<uInt>(count);
  while (stream_->avail_out > 0) {
    if (stream_->avail_in == 0) next_chunk();
    const int status = inflate(stream_.get(), Z_NO_FLUSH);
    if (status == Z_STREAM_END && stream_->avail_out > 0) fail_broken("PNG", kNotEnough);
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      fail_broken("PNG", stream_->msg != nullptr ? stream_->msg : "its pixels are broken");
    }
  }
}

}  // namespace plimsoll::image::codecs
