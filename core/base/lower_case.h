// Text in small letters, or in capitals.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace plimsoll {

/// The text with ASCII's capital letters made small.
inline std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}
/// The text with ASCII's small letters made capital.
inline std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace plimsoll
