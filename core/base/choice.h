// Options that take one of several words.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll {

template <typename Value>
using Choices = std::vector<std::pair<std::string, Value>>;

/// "json|text": the words; of several words for one value the first alone.
template <typename Value>
std::string listed(const Choices<Value>& choices) {
  std::string words;
  for (auto at = choices.begin(); at != choices.end(); ++at) {
    const bool again = std::any_of(choices.begin(), at,
                                   [&](const auto& before) { return before.second == at->second; });
    if (!again) words += (words.empty() ? "" : "|") + at->first;
  }
  return words;
}

/// The value of a word, in any case. Throws std::invalid_argument.
template <typename Value>
Value chosen(const std::string& text, const Choices<Value>& choices) {
  for (const auto& [word, value] : choices) {
    const bool same = std::ranges::equal(word, text, [](unsigned char a, unsigned char b) {
      return std::tolower(a) == std::tolower(b);
    });
    if (same) return value;
  }
  throw std::invalid_argument(
      fmt::format("expected one of {}, found \"{}\"", listed(choices), text));
}

}  // namespace plimsoll
