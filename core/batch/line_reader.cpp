#include "batch/line_reader.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"
#include "base/trim.h"

namespace plimsoll::batch {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kLongBytes = size_t{1} << 20;
constexpr size_t kHeadBytes = 256;  // kept of an overlong line, to find its id

// Begins each text of a JSON sequence (RFC 7464); texts of one line are lines as ours.
constexpr char kRecordSeparator = '\x1e';

void drop_frame(std::string& text) {
  if (text.starts_with(kRecordSeparator)) text.erase(0, 1);
  if (text.ends_with('\r')) text.pop_back();
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\f\v") == std::string_view::npos;
}

}  // namespace

LineReader::LineReader(files::InputFile& input, size_t max_line_bytes)
    : input_(input), max_line_bytes_(max_line_bytes) {}

LineReader::Got LineReader::next(Line& line, int timeout_ms) {
  while (true) {
    const void* found = std::memchr(buffer_.data() + scanned_, '\n', buffer_.size() - scanned_);
    if (found) {
      const size_t end = static_cast<size_t>(static_cast<const char*>(found) - buffer_.data());
      const bool usable = take(line, end - start_);
      scanned_ = ++start_;  // behind the line's end
      if (usable) return Got::line;
      continue;
    }
    scanned_ = buffer_.size();
    if (ended_) {
      const bool usable =
          (start_ < buffer_.size() || overlong_) && take(line, buffer_.size() - start_);
      start_ = scanned_ = buffer_.size();
      return usable ? Got::line : Got::end;
    }
    if (buffer_.size() - start_ > std::max(max_line_bytes_, kHeadBytes)) {
      if (!overlong_) {
        overlong_head_ = buffer_.substr(start_, kHeadBytes);
        overlong_offset_ = offset();
      }
      overlong_ = true;
      start_ = buffer_.size();
    }
    buffer_.erase(0, start_);
    start_ = 0;
    const size_t before = scanned_ = buffer_.size();
    buffer_.resize(before + kReadBytes);
    const std::optional<size_t> got = input_.read(buffer_.data() + before, kReadBytes, timeout_ms);
    buffer_.resize(before + got.value_or(0));
    if (!got) return Got::nothing_yet;
    if (bytes_read_ == 0) check_magic();
    bytes_read_ += *got;
    ended_ = *got == 0;
  }
}

// Makes a line of the next `length` bytes and goes behind them; false for a blank one.
bool LineReader::take(Line& line, size_t length) {
  line.number = ++number_;
  line.too_long = overlong_ || length > max_line_bytes_;
  line.offset = overlong_ ? overlong_offset_ : offset();
  line.bytes = offset() + length - line.offset;
  if (line.too_long) {
    line.text = overlong_ ? std::move(overlong_head_)
                          : buffer_.substr(start_, std::min(length, kHeadBytes));
    overlong_ = false;
    start_ += length;
  } else {
    hand_out(line.text, length);
    drop_frame(line.text);
    if (is_blank(line.text)) return false;
    if (ordinal_ == 0) check_first_line(line.text);
  }
  line.ordinal = ordinal_++;
  return true;
}

// A long line takes over the buffer's memory; what was read with its end is copied instead.
void LineReader::hand_out(std::string& text, size_t length) {
  if (start_ > 0 || length < kLongBytes) {
    text.assign(buffer_, start_, length);
    start_ += length;
    return;
  }
  std::string rest = buffer_.substr(length);
  buffer_.resize(length);
  text = std::move(buffer_);
  buffer_ = std::move(rest);
}

void LineReader::check_magic() const {
  struct Magic {
    std::string_view bytes, what, cure;
  };
  static constexpr Magic kMagics[] = {
      {"\xfd"
       "7zXZ",
       "xz-compressed", "unpack it on the way: xzcat FILE | plimsoll run MODEL -i -"},
      {"PAR1", "a Parquet file",
       "convert it: duckdb -c \"copy (from 'FILE') to '/dev/stdout' (format json)\""},
      {"ARROW1", "an Arrow file", "convert it to JSON lines"},
      {"Obj\x01", "an Avro file", "convert it to JSON lines: avro cat FILE"},
      {"SQLite format 3", "an SQLite database", "write its rows out as JSON lines"},
      {"BZh", "bzip2-compressed", "unpack it on the way: bzcat FILE | plimsoll run MODEL -i -"},
      {"PK\x03\x04", "a zip archive", "unpack it first"},
      {"\xff\xfe", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
      {"\xfe\xff", "UTF-16 text", "convert it: iconv -f UTF-16 -t UTF-8"},
  };
  for (const Magic& magic : kMagics) {
    if (!buffer_.starts_with(magic.bytes)) continue;
    fail(ExitCode::input_unusable, "{}: is {}, not JSONL; {}", input_.name(), magic.what,
         magic.cure);
  }
}

// Throws for an input whose first value goes over several lines, because every line would fail. A
// torn object fails its own line only: another object follows it.
void LineReader::check_first_line(std::string_view text) const {
  const std::string_view line = trimmed(text, " \t\r");
  const std::string_view behind = trimmed(std::string_view(buffer_).substr(start_), " \t\r\n");
  const bool array = line.starts_with('[');
  const bool goes_on =
      line == "{" || (line.starts_with('{') && !behind.empty() && !behind.starts_with('{') &&
                      std::string_view(",:[{").find(line.back()) != std::string_view::npos);
  if (!array && !goes_on) return;
  try {
    (void)parse_json<Json>(line);
  } catch (const JsonError&) {
    fail(ExitCode::input_unusable, "{}: is {}", input_.name(),
         array ? kJsonArray : "JSON over several lines; put each object on one: jq -c . FILE");
  }
}

Line read_again(const files::InputFile& input, const LinePlace& place) {
  const uint64_t bytes = place.too_long ? std::min<uint64_t>(place.bytes, kHeadBytes) : place.bytes;
  Line line{place, std::string(bytes, '\0')};
  input.read_again(place.offset, line.text.data(), line.text.size());
  if (!line.too_long) drop_frame(line.text);
  return line;
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  const auto is_ascii = [&](size_t at) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    return (bytes & 0x8080808080808080u) == 0;
  };
  const auto byte = [&](size_t at) {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  const auto follows = [&](size_t at) { return (byte(at) & 0xC0u) == 0x80u; };
  size_t at = 0;
  while (at < text.size()) {
    while (at + sizeof(uint64_t) <= text.size() && is_ascii(at)) at += sizeof(uint64_t);
    if (at == text.size()) break;
    const unsigned lead = byte(at);
    size_t length = 1;
    if (lead >= 0x80) {
      // Unicode 15, table 3-7: well-formed byte sequences.
      const unsigned second = byte(at + 1);
      if (lead >= 0xC2 && lead <= 0xDF) {
        length = 2;
      } else if (lead >= 0xE0 && lead <= 0xEF) {
        const bool fits = lead == 0xE0 ? second >= 0xA0 : lead == 0xED ? second <= 0x9F : true;
        length = fits && follows(at + 2) ? 3 : 0;
      } else if (lead >= 0xF0 && lead <= 0xF4) {
        const bool fits = lead == 0xF0 ? second >= 0x90 : lead == 0xF4 ? second <= 0x8F : true;
        length = fits && follows(at + 2) && follows(at + 3) ? 4 : 0;
      } else {
        length = 0;
      }
      if (length == 0 || !follows(at + 1)) return at;
    }
    at += length;
  }
  return std::nullopt;
}

}  // namespace plimsoll::batch
