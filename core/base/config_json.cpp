#include "base/config_json.h"

#include "base/key_order.h"

namespace plimsoll {

std::string without_python_numbers(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 16);
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (quoted) {
      result += c;
      if (c == '\\' && i + 1 < text.size()) result += text[++i];
      quoted = c != '"';
      ++i;
      continue;
    }
    std::string_view word;
    for (const std::string_view candidate : {"-Infinity", "Infinity", "NaN"}) {
      if (text.substr(i, candidate.size()) == candidate) {
        word = candidate;
        break;
      }
    }
    if (word.empty()) {
      quoted = c == '"';
      result += c;
      ++i;
    } else {
      result += '"';
      result += word;
      result += '"';
      i += word.size();
    }
  }
  return result;
}

Json read_config_json(const std::filesystem::path& file) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  const std::string text = without_python_numbers(read_text_file(file, kMostBytes));
  Json config = parse_file_text(file, text);
  keep_key_order(text, config);
  return config;
}

}  // namespace plimsoll
