#include "base/long_strings.h"

#include <algorithm>

namespace plimsoll {
namespace {

/// The quote that ends a string whose content begins here.
size_t end_of_string(std::string_view text, size_t begin) {
  for (size_t end = text.find('"', begin); end != std::string_view::npos;
       end = text.find('"', end + 1)) {
    size_t escapes = 0;
    while (end - escapes > begin && text[end - escapes - 1] == '\\') ++escapes;
    if (escapes % 2 == 0) return end;
  }
  return std::string_view::npos;
}

/// No controls, no escapes, no bytes beyond ASCII. Without a branch in each round.
bool is_plain(std::string_view text) {
  unsigned bad = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    bad |= static_cast<unsigned>(byte < 0x20) | static_cast<unsigned>(byte >= 0x80) |
           static_cast<unsigned>(byte == '\\');
  }
  return bad == 0;
}

}  // namespace

Outline::Outline(std::string_view text) {
  if (text.size() < kLong) return;
  size_t number = 0;
  for (size_t quote = text.find('"'); quote != std::string_view::npos; ++number) {
    const size_t begin = quote + 1;
    const size_t end = end_of_string(text, begin);
    if (end == std::string_view::npos) return;  // no JSON: the parser says where
    if (end - begin >= kLong && is_plain(text.substr(begin, end - begin))) {
      strings_.push_back({number, begin, end - begin});
    }
    quote = text.find('"', end + 1);
  }
}

std::string Outline::text_of(std::string_view whole) const {
  std::string text;
  size_t from = 0;
  for (const LongString& string : strings_) {
    text += whole.substr(from, string.at - from);
    from = string.at + string.length;
  }
  return text += whole.substr(from);
}

size_t Outline::place_of(size_t offset) const {
  for (const LongString& string : strings_) {
    if (offset < string.at) break;
    offset += string.length;
  }
  return offset;
}

}  // namespace plimsoll
