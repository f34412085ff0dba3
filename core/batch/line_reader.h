// Lines of a JSONL input, one at a time, in memory bounded by the longest line allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "files/input_file.h"

namespace plimsoll::batch {

/// Message for an input that is a JSON array, with the command that makes lines of it.
inline constexpr const char* kJsonArray = "a JSON array; make it lines: jq -c '.[]' FILE";

/// Where a line stands that is not blank.
struct LinePlace {
  uint64_t number = 0;   // 1-based, blank lines counted
  uint64_t ordinal = 0;  // 0-based, blank lines not counted
  uint64_t offset = 0;   // of its first byte in the input, unpacked
  uint64_t bytes = 0;    // without the line feed
  bool too_long = false;
};

/// A line that is not blank.
struct Line : LinePlace {
  std::string text;  // without line end; only the beginning of a line that is too long
};

class LineReader {
 public:
  /// `next` throws Error(input_unusable) for what is not text (xz, zip, Parquet, UTF-16) and for
  /// JSON whose first line is no whole value (an array over several lines, a pretty-printed
  /// object).
  LineReader(files::InputFile& input, size_t max_line_bytes);

  enum class Got : uint8_t { line, nothing_yet, end };
  /// The next line. CR LF counts as a line end, the last line needs none. `nothing_yet`: no whole
  /// line came within `timeout_ms`.
  Got next(Line& line, int timeout_ms);

  [[nodiscard]] uint64_t bytes_read() const { return bytes_read_; }

 private:
  void check_magic() const;
  void check_first_line(std::string_view text) const;
  bool take(Line& line, size_t length);
  void hand_out(std::string& text, size_t length);
  /// Offset in the input of what has not been handed out.
  [[nodiscard]] uint64_t offset() const { return bytes_read_ - (buffer_.size() - start_); }

  files::InputFile& input_;
  size_t max_line_bytes_;
  std::string buffer_;  // what has been read and not handed out, from start_
  size_t start_ = 0;
  size_t scanned_ = 0;  // no line end before this
  uint64_t bytes_read_ = 0;
  uint64_t number_ = 0;
  uint64_t ordinal_ = 0;
  bool overlong_ = false;  // the current line is being thrown away up to its end
  std::string overlong_head_;
  uint64_t overlong_offset_ = 0;
  bool ended_ = false;
};

/// The line that a LineReader gave at this place of an input that is neither a stream nor packed.
/// Throws Error(input_unusable) when it is gone.
Line read_again(const files::InputFile& input, const LinePlace& place);

/// Byte offset of the first byte that is not part of valid UTF-8.
std::optional<size_t> first_invalid_utf8(std::string_view text);

}  // namespace plimsoll::batch
