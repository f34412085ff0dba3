// Texts that are not UTF-8, such as names of files, in JSON, which holds only UTF-8.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"

namespace plimsoll {

/// JSON holds only UTF-8. A text that is not UTF-8 is stored as its bytes in hexadecimal, behind
/// this mark.
inline constexpr std::string_view kBytesMark = "not UTF-8, in hexadecimal: ";

/// The text itself, or its bytes where it is not UTF-8 or begins as these.
inline std::string text_or_bytes(std::string text) {
  try {
    (void)Json(text).dump();
    if (!text.starts_with(kBytesMark)) return text;
  } catch (const Json::type_error&) {
  }
  std::string bytes(kBytesMark);
  for (const unsigned char c : text) bytes += fmt::format("{:02x}", c);
  return bytes;
}

/// The text that `text_or_bytes` made this of.
inline std::string text_of_bytes(std::string text) {
  if (!text.starts_with(kBytesMark)) return text;
  std::string out;
  for (size_t i = kBytesMark.size(); i + 1 < text.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(&text[i], &text[i] + 2, value, 16);
    out += static_cast<char>(value);
  }
  return out;
}

/// The value with each of its texts and keys as `change` makes it.
template <typename J>
J with_texts(const J& json, std::string (*change)(std::string)) {
  if (json.is_string()) return change(json.template get<std::string>());
  if (!json.is_structured()) return json;
  J out = json.is_array() ? J::array() : J::object();
  for (const auto& [key, item] : json.items()) {
    J changed = with_texts(item, change);
    if (json.is_array()) {
      out.push_back(std::move(changed));
    } else {
      out[change(key)] = std::move(changed);
    }
  }
  return out;
}

/// The text with U+FFFD in place of what is not UTF-8.
inline std::string shown_text(const std::string& text) {
  return Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace plimsoll
