#include "image/codecs/gif_strings.h"

#include <cstring>

namespace plimsoll::image::codecs {
namespace {

constexpr size_t kAtOnce = 8;  // bytes of a piece

/// Copies a piece. Bytes behind the piece's end may be written. A piece that reaches into its own
/// copy is repeated, so it goes byte by byte.
void copy_piece(const uint8_t* from, size_t length, uint8_t* to) {
  if (to - from < static_cast<std::ptrdiff_t>(kAtOnce)) {
    for (size_t i = 0; i < length; ++i) to[i] = from[i];
    return;
  }
  for (size_t i = 0; i < length; i += kAtOnce) std::memcpy(to + i, from + i, kAtOnce);
}

}  // namespace

GifStrings::GifStrings(int bits, NextBlock next_block)
    : next_block_(std::move(next_block)),
      clear_(1u << bits),
      bits_(static_cast<uint32_t>(bits)),
      width_(0),
      next_(0) {
  start_anew();
}

void GifStrings::start_anew() {
  width_ = bits_ + 1;
  next_ = clear_ + 2;
  last_ = {};
}

void GifStrings::refill() {
  while (block_.empty()) {
    block_ = next_block_();
    if (block_.empty()) fail_broken("GIF", "its codes end before its pixels");
  }
  taken_ |= uint64_t{block_.front()} << taken_bits_;
  taken_bits_ += 8;
  block_ = block_.subspan(1);
}

uint32_t GifStrings::take_code() {
  while (taken_bits_ < width_) refill();
  const auto code = static_cast<uint32_t>(taken_ & ((1u << width_) - 1));
  taken_ >>= width_;
  taken_bits_ -= width_;
  return code;
}

/// The code that comes next stands for the last piece and its first byte again.
GifStrings::Piece GifStrings::find(uint32_t code) const {
  if (last_.length == 0 || code > next_) fail_broken("GIF", "has a code that stands for nothing");
  return code == next_ ? Piece{last_.first, last_.length + 1} : pieces_[code];
}

/// The last piece with the byte behind it has the next code.
void GifStrings::learn() {
  if (last_.length == 0 || next_ == kCodes) return;
  pieces_[next_] = {last_.first, last_.length + 1};
  ++next_;
  if (next_ == 1u << width_ && next_ < kCodes) ++width_;
}

std::vector<uint8_t> GifStrings::read(size_t count) {
  std::vector<uint8_t> numbers(count + kCodes + kAtOnce);
  size_t at = 0;
  while (at < count) {
    const uint32_t code = take_code();
    if (code == clear_) {
      start_anew();
      continue;
    }
    if (code == clear_ + 1) fail_broken("GIF", "its codes end before its pixels");
    Piece piece{static_cast<uint32_t>(at), 1};
    if (code < clear_) {
      numbers[at] = static_cast<uint8_t>(code);
    } else {
      const Piece source = find(code);
      piece.length = source.length;
      copy_piece(numbers.data() + source.first, source.length, numbers.data() + at);
    }
    learn();
    last_ = piece;
    at += piece.length;
  }
  numbers.resize(count);
  return numbers;
}

}  // namespace plimsoll::image::codecs
