#include "base/wrapped_text.h"

#include <algorithm>

namespace plimsoll {

std::string wrapped_text(const std::string& text, int columns, int indent) {
  std::string result;
  std::string line;
  const auto room = static_cast<size_t>(std::max(20, columns - indent));
  const std::string margin(static_cast<size_t>(indent), ' ');
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > room) {
      result += margin + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    at = end + 1;
  }
  if (!line.empty()) result += margin + line + "\n";
  return result;
}

std::string wrapped_after(const std::string& head, const std::string& text, int columns,
                          int indent) {
  std::string lines = wrapped_text(text, columns, indent);
  if (lines.empty() || head.size() >= static_cast<size_t>(indent)) return head + "\n" + lines;
  return lines.replace(0, head.size(), head);
}

}  // namespace plimsoll
