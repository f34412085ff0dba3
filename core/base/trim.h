// Text without surrounding characters.
#pragma once

#include <string_view>

namespace plimsoll {

/// The text without `spaces` before and after it.
inline std::string_view trimmed(std::string_view text, std::string_view spaces = " ") {
  const size_t first = text.find_first_not_of(spaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(spaces) + 1 - first);
}

}  // namespace plimsoll
