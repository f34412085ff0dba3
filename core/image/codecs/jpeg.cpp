#include <csetjmp>
#include <cstdio>  // before jpeglib.h, which wants FILE

#include <jpeglib.h>

#include <jerror.h>

#include "image/codecs/codecs.h"
#include "image/codecs/colour.h"

namespace plimsoll::image::codecs {
namespace {

/// libjpeg says what is wrong by leaving its call. Between set and jump there are only its frames
/// and ours without destructors.
class JpegReader {
 public:
  explicit JpegReader(Bytes file) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { std::longjmp(reader(info).jump_, 1); };
    errors_.emit_message = [](j_common_ptr, int) {};  // what a decoder mends is mended
    info_.client_data = this;
    guard([&] {
      jpeg_create_decompress(&info_);
      source_.next_input_byte = file.data();
      source_.bytes_in_buffer = file.size();
      source_.init_source = [](j_decompress_ptr) {};
      source_.fill_input_buffer = [](j_decompress_ptr info) -> boolean {
        ERREXIT(info, JERR_INPUT_EOF);
        return FALSE;
      };
      source_.skip_input_data = skip;
      source_.resync_to_restart = jpeg_resync_to_restart;
      source_.term_source = [](j_decompress_ptr) {};
      info_.src = &source_;
      progress_.progress_monitor = watch;
      info_.progress = &progress_;
    });
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Size start() {
    guard([&] {
      jpeg_read_header(&info_, TRUE);
      const bool print = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
      const bool gray = info_.jpeg_color_space == JCS_GRAYSCALE;
      info_.out_color_space = print ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
      jpeg_start_decompress(&info_);
    });
    return {info_.output_width, info_.output_height};
  }
  [[nodiscard]] int components() const { return info_.output_components; }
  void read_row(uint8_t* row) {
    guard([&] { jpeg_read_scanlines(&info_, &row, 1); });
  }
  void finish() {
    guard([&] { jpeg_finish_decompress(&info_); });
  }

 private:
  /// Most scans of a file: each takes as long as the image is large, and a few bytes of file can
  /// ask for one.
  static constexpr int kMostScans = 64;

  static JpegReader& reader(j_common_ptr info) {
    return *static_cast<JpegReader*>(info->client_data);
  }
  static void skip(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    if (static_cast<size_t>(count) > info->src->bytes_in_buffer) ERREXIT(info, JERR_INPUT_EOF);
    info->src->next_input_byte += count;
    info->src->bytes_in_buffer -= static_cast<size_t>(count);
  }
  static void watch(j_common_ptr info) {
    auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
    if (decompress->input_scan_number <= kMostScans) return;
    reader(info).too_many_scans_ = true;
    std::longjmp(reader(info).jump_, 1);
  }

  template <typename F>
  void guard(F f) {
    if (setjmp(jump_) == 0) {
      f();
      return;
    }
    if (too_many_scans_) fail_broken("JPEG", "has more scans than an image needs");
    if (errors_.msg_code == JERR_INPUT_EOF) fail_truncated("JPEG");
    char message[JMSG_LENGTH_MAX];
    errors_.format_message(reinterpret_cast<j_common_ptr>(&info_), message);
    fail_broken("JPEG", message);
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf jump_{};
  bool too_many_scans_ = false;
};

/// Components of a row to RGB.
void to_rgb(const uint8_t* from, int components, uint8_t* to, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, from += components, to += 3) {
    for (int c = 0; c < 3; ++c) {
      // Prints are stored inverted (Adobe), and everybody takes them to be.
      to[c] = components == 4 ? from_ink(255u - from[c], 255u - from[3]) : from[0];
    }
  }
}

}  // namespace

Image decode_jpeg(Bytes file, const Header& header) {
  JpegReader reader(file);
  if (reader.start() != header.stored) fail_broken("JPEG", "has two sizes");
  Image image = blank(header.stored);
  const int64_t width = header.stored.width;
  const int components = reader.components();
  std::vector<uint8_t> row(static_cast<size_t>(width * components));
  for (int64_t y = 0; y < header.stored.height; ++y) {
    uint8_t* to = image.rgb.data() + y * width * 3;
    reader.read_row(components == 3 ? to : row.data());
    if (components != 3) to_rgb(row.data(), components, to, width);
  }
  reader.finish();
  return image;
}

}  // namespace plimsoll::image::codecs
