// Steps of a reader through a text, which the readers of calls share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "text/answer/scan.h"

namespace plimsoll::text {

/// Whether a comma may stand behind the last item of a list.
enum class LastComma : uint8_t { refused, allowed };

class TextReader {
 public:
  /// Reads `text` from `at` on; `blanks` are the characters that skip_space passes.
  TextReader(std::string_view text, size_t at, std::string_view blanks = kBlanks)
      : text_(text), at_(at), blanks_(blanks) {}

  /// Bytes of the text that are read so far.
  [[nodiscard]] size_t at() const { return at_; }
  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  /// The next character; 0 at the end.
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  /// True, and past it, where `word` comes next.
  bool skip(std::string_view word) {
    if (!rest().starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  /// The text before the next `stop`, and past it; none where more than `most` bytes are before it.
  std::optional<std::string_view> up_to(std::string_view stop, size_t most) {
    const size_t end = rest().substr(0, most + stop.size()).find(stop);
    if (end == kNowhere) return std::nullopt;
    const std::string_view before = rest().substr(0, end);
    at_ += end + stop.size();
    return before;
  }
  void skip_space() { at_ = behind_blanks(text_, at_, blanks_); }

  /// Reads items with commas between up to `close`. item(i) reads the ith and returns false where
  /// it cannot; so does the list.
  template <typename Item>
  bool list(std::string_view close, LastComma last_comma, Item item) {
    skip_space();
    if (skip(close)) return true;
    for (size_t i = 0;; ++i) {
      if (!item(i)) return false;
      skip_space();
      if (skip(close)) return true;
      if (!skip(",")) return false;
      skip_space();
      if (last_comma == LastComma::allowed && skip(close)) return true;
    }
  }

 protected:
  std::string_view text_;
  size_t at_;

 private:
  std::string_view blanks_;
};

}  // namespace plimsoll::text
