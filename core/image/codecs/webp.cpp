#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "image/codecs/codecs.h"
#include "image/codecs/colour.h"
#include "image/codecs/orientation.h"

namespace plimsoll::image::codecs {
namespace {

/// A file's chunks, opened by libwebp's demuxer: it checks their structure and reads no pixel.
class Demuxer {
 public:
  explicit Demuxer(Bytes file) : data_{file.data(), file.size()} {
    ByteReader riff(file, "WebP");
    riff.skip(4);
    if (riff.little(4) > riff.left()) fail_truncated("WebP");
    demuxer_.reset(WebPDemux(&data_));
    if (!demuxer_) fail_broken("WebP", "its chunks are not those of an image");
  }

  [[nodiscard]] Size canvas() const {
    return {WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_WIDTH),
            WebPDemuxGetI(demuxer_.get(), WEBP_FF_CANVAS_HEIGHT)};
  }
  [[nodiscard]] Bytes chunk(const char* name) const {
    WebPChunkIterator at{};
    Bytes bytes;
    if (WebPDemuxGetChunk(demuxer_.get(), name, 1, &at)) bytes = {at.chunk.bytes, at.chunk.size};
    WebPDemuxReleaseChunkIterator(&at);
    return bytes;
  }
  /// The first frame; its bytes are the file's.
  [[nodiscard]] WebPIterator first_frame() const {
    WebPIterator at{};
    if (!WebPDemuxGetFrame(demuxer_.get(), 1, &at)) fail_broken("WebP", "has no frame");
    WebPDemuxReleaseIterator(&at);
    return at;
  }

 private:
  struct Delete {
    void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
  };
  WebPData data_;
  std::unique_ptr<WebPDemuxer, Delete> demuxer_;
};

bool canvas_has_alpha(Bytes file, const WebPIterator& frame) {
  WebPBitstreamFeatures features{};
  if (WebPGetFeatures(file.data(), file.size(), &features) == VP8_STATUS_OK) {
    return features.has_alpha != 0;
  }
  return frame.has_alpha != 0;
}

/// Memory for a frame's pixels: rows of RGB, `stride` bytes from one to the next.
struct Target {
  uint8_t* rgb;
  int64_t stride;
  Size size;
};

/// True for a lossy frame without a plane of alpha; a lossless frame's flag of alpha is only a
/// hint.
bool is_opaque(const WebPIterator& frame) {
  constexpr int kLossy = 1;
  WebPBitstreamFeatures features{};
  return WebPGetFeatures(frame.fragment.bytes, frame.fragment.size, &features) == VP8_STATUS_OK &&
         features.format == kLossy && features.has_alpha == 0;
}

[[noreturn]] void fail_pixels() {
  fail_broken("WebP", "the pixels are broken or cut short");
}

void decode_opaque(const WebPIterator& frame, const Target& to) {
  const int64_t bytes = (to.size.height - 1) * to.stride + 3 * to.size.width;
  if (!WebPDecodeRGBInto(frame.fragment.bytes, frame.fragment.size, to.rgb,
                         static_cast<size_t>(bytes), static_cast<int>(to.stride))) {
    fail_pixels();
  }
}

void decode_over_white(const WebPIterator& frame, const Target& to) {
  Levels rgba(image_bytes(to.size, 4));
  const int64_t stride = 4 * to.size.width;
  if (!WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, rgba.data(), rgba.size(),
                          static_cast<int>(stride))) {
    fail_pixels();
  }
  for (int64_t y = 0; y < to.size.height; ++y) {
    rgba_over_white(rgba.data() + y * stride, to.rgb + y * to.stride, to.size.width);
  }
}

}  // namespace

/// The frame as RGBA, which lossless ones are decoded to a second time over, beside the result.
Header read_webp_header(Bytes file) {
  const Demuxer demuxer(file);
  Header header;
  header.stored = demuxer.canvas();
  header.memory_bytes = image_bytes(header.stored, 3 + 4 + 4);
  header.orientation = exif_orientation(demuxer.chunk("EXIF"));
  if (header.orientation == 1) header.orientation = xmp_orientation(demuxer.chunk("XMP "));
  return header;
}

Image decode_webp(Bytes file, const Header& header) {
  const Demuxer demuxer(file);
  const WebPIterator frame = demuxer.first_frame();
  const Size size{frame.width, frame.height};
  if (frame.x_offset < 0 || frame.y_offset < 0 ||
      frame.x_offset + size.width > header.stored.width ||
      frame.y_offset + size.height > header.stored.height) {
    fail_broken("WebP", "the first frame stands outside the image");
  }
  Image image = blank(header.stored);
  if (size != header.stored) {
    std::ranges::fill(image.rgb, canvas_has_alpha(file, frame) ? uint8_t{255} : uint8_t{0});
  }
  const int64_t first = frame.y_offset * header.stored.width + frame.x_offset;
  const Target to{image.rgb.data() + 3 * first, 3 * header.stored.width, size};
  is_opaque(frame) ? decode_opaque(frame, to) : decode_over_white(frame, to);
  return image;
}

}  // namespace plimsoll::image::codecs
