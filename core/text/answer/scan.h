// Small looks at texts, and at the tables of formats, that the readers of answers share.
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

namespace plimsoll::text {

/// Characters that str.strip() of Python removes, of ASCII.
inline constexpr std::string_view kBlanks = " \t\n\r\f\v";
inline constexpr auto kNowhere = std::string_view::npos;
/// Most levels of JSON or Python values within each other.
inline constexpr int kMostLevels = 64;

/// Bytes of the longest name of a function or parameter.
inline constexpr size_t kLongestName = 512;

inline bool is_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == kNowhere;
}
inline bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
/// The place behind blanks at `from`; the text's end where nothing else comes.
inline size_t behind_blanks(std::string_view text, size_t from, std::string_view blanks = kBlanks) {
  const size_t next = text.find_first_not_of(blanks, from);
  return next == kNowhere ? text.size() : next;
}

/// The text without a line end at its start and one at its end.
inline std::string_view without_lines(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

/// The row of a table whose `names` have a name; null: none.
template <typename Row>
const Row* find_named(std::span<const Row> table, std::string_view name) {
  for (const Row& row : table) {
    if (!name.empty() && std::ranges::find(row.names, name) != row.names.end()) return &row;
  }
  return nullptr;
}

/// The first row of a table whose `marks` a chat template has; null: none.
template <typename Row>
const Row* find_by_marks(std::span<const Row> table, std::string_view source) {
  for (const Row& row : table) {
    const bool has_all = std::ranges::all_of(
        row.marks, [&](std::string_view mark) { return source.find(mark) != kNowhere; });
    if (!row.marks.front().empty() && has_all) return &row;
  }
  return nullptr;
}

}  // namespace plimsoll::text
