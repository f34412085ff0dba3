// Replacing every occurrence of a text.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace plimsoll {

/// Replaces each `from` in a text, left to right, in time linear in the text; an empty `from` is
/// nowhere.
inline void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  size_t last = 0;
  for (; at != std::string::npos; at = text.find(from, last)) {
    out.append(text, last, at - last);
    out += to;
    last = at + from.size();
  }
  out.append(text, last);
  text = std::move(out);
}

}  // namespace plimsoll
