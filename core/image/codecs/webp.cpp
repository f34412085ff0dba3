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
    if (!demuxer_) fail_broken("WebP", "its chunks are not those of a picture");
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
  /// Where the first frame stands; its bytes are the file's.
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

}  // namespace

/// The frame as RGBA, which lossless ones are decoded to a second time over, beside the result.
Header read_webp_header(Bytes file) {
  const Demuxer demuxer(file);
  Header header;
  header.stored = demuxer.canvas();
  header.memory_bytes = picture_bytes(header.stored, 3 + 4 + 4);
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
    fail_broken("WebP", "the first frame stands outside the picture");
  }
  std::vector<uint8_t> rgba(picture_bytes(size, 4));
  const auto stride = static_cast<int>(size.width * 4);
  if (!WebPDecodeRGBAInto(frame.fragment.bytes, frame.fragment.size, rgba.data(), rgba.size(),
                          stride)) {
    fail_broken("WebP", "the pixels are broken or cut short");
  }
  Image image = blank(header.stored);
  if (canvas_has_alpha(file, frame)) std::ranges::fill(image.rgb, uint8_t{255});
  for (int64_t y = 0; y < size.height; ++y) {
    const int64_t at = (frame.y_offset + y) * header.stored.width + frame.x_offset;
    rgba_over_white(rgba.data() + y * stride, image.rgb.data() + 3 * at, size.width);
  }
  return image;
}

}  // namespace plimsoll::image::codecs
