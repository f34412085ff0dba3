// A text cut at separators.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// The pieces between any of `separators`, which point into `text`: one more than there are
/// separators, so that an empty text is one empty piece.
inline std::vector<std::string_view> split_text(std::string_view text,
                                                std::string_view separators) {
  std::vector<std::string_view> pieces;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    pieces.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return pieces;
}
/// The pieces would outlive the text.
std::vector<std::string_view> split_text(std::string&& text, std::string_view separators) = delete;

}  // namespace plimsoll
