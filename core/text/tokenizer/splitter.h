// Cutting pieces at delimiters.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "text/tokenizer/pre_tokenizer.h"
#include "text/unicode/unicode.h"

namespace plimsoll::text {

/// A range of a piece: a match, or the gap before, between or after matches.
struct Stretch {
  size_t begin;
  size_t end;
  bool delimiter;
};

/// Collects the stretches of one piece in order, and makes pieces of them by the behaviour.
class Splitter {
 public:
  explicit Splitter(PreTokenized& text) : text_(text) { old_.swap(text.pieces); }

  [[nodiscard]] const std::vector<Piece>& old_pieces() const { return old_; }
  void begin(const Piece& piece) {
    piece_ = piece;
    stretches_.clear();
    last_ = 0;
  }
  /// Adds a match; offsets count from the piece's start.
  void match(size_t begin, size_t end, SplitOn on) {
    if (last_ < begin) stretches_.push_back({last_, begin, on == SplitOn::gaps});
    stretches_.push_back({begin, end, on == SplitOn::matches});
    last_ = end;
  }
  void finish(SplitBehavior behavior, SplitOn on) {
    const size_t size = piece_.end - piece_.begin;
    if (last_ < size) stretches_.push_back({last_, size, on == SplitOn::gaps});
    switch (behavior) {
      case SplitBehavior::removed:
        for (const Stretch& s : stretches_) {
          if (!s.delimiter) put(s.begin, s.end);
        }
        break;
      case SplitBehavior::isolated:
        for (const Stretch& s : stretches_) put(s.begin, s.end);
        break;
      case SplitBehavior::contiguous:
        merge([](bool is, bool was) { return is == was; });
        break;
      case SplitBehavior::merged_with_previous:
        merge([](bool is, bool was) { return is && !was; });
        break;
      case SplitBehavior::merged_with_next:
        merge_backwards();
        break;
    }
  }
  void put(size_t begin, size_t end) {
    if (begin == end) return;
    const bool from_first = begin < piece_.head;
    text_.pieces.push_back(
        {piece_.begin + begin, piece_.begin + end, piece_.at_origin && from_first,
         from_first ? std::min(piece_.head, end) - begin : first_character(begin)});
  }

 private:
  [[nodiscard]] size_t first_character(size_t begin) const {
    return utf8_length(text_.text[piece_.begin + begin]);
  }

  // Joins a stretch to the one before it where `joins(delimiter now, delimiter before)`.
  template <typename Joins>
  void merge(Joins&& joins) {
    bool was = false;
    size_t begin = 0;
    size_t end = 0;
    bool open = false;
    for (const Stretch& s : stretches_) {
      if (!joins(s.delimiter, was) || !open) {
        if (open) put(begin, end);
        begin = s.begin;
      }
      open = true;
      end = s.end;
      was = s.delimiter;
    }
    if (open) put(begin, end);
  }

  void merge_backwards() {
    std::vector<std::pair<size_t, size_t>> spans;
    bool was = false;
    for (auto s = stretches_.rbegin(); s != stretches_.rend(); ++s) {
      if (s->delimiter && !was && !spans.empty()) {
        spans.back().first = s->begin;
      } else {
        spans.emplace_back(s->begin, s->end);
      }
      was = s->delimiter;
    }
    for (auto span = spans.rbegin(); span != spans.rend(); ++span) put(span->first, span->second);
  }

  PreTokenized& text_;
  std::vector<Piece> old_;
  Piece piece_;
  std::vector<Stretch> stretches_;
  size_t last_ = 0;
};

}  // namespace plimsoll::text
