// Long strings of a JSON text, such as images in base64, kept out of the parser, which looks at
// each byte of a string several times, and copies it as often.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace plimsoll {

/// A string that has no escapes and nothing but printable ASCII.
struct LongString {
  size_t number = 0;  // among the text's strings, keys too
  size_t at = 0;      // its first byte
  size_t length = 0;
};

/// A text without the contents of its long strings.
class Outline {
 public:
  /// Length in bytes from which a string is long.
  static constexpr size_t kLong = size_t{64} << 10;

  explicit Outline(std::string_view text);
  [[nodiscard]] const std::vector<LongString>& strings() const { return strings_; }
  [[nodiscard]] std::string text_of(std::string_view whole) const;
  /// Offset in the whole text of a byte of the outline's text.
  [[nodiscard]] size_t place_of(size_t offset) const;

 private:
  std::vector<LongString> strings_;
};

/// Parses as parse_json, but consumes the text: the longest of its strings takes over its memory.
template <typename Value>
Value parse_json_from(std::string&& text, JsonLimits limits = {});
extern template Json parse_json_from<Json>(std::string&&, JsonLimits);
extern template OrderedJson parse_json_from<OrderedJson>(std::string&&, JsonLimits);

}  // namespace plimsoll
