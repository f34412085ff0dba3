#include "cli/plan/paste/shell/process_list.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"

namespace plimsoll::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view kDigits = "0123456789";

/// 0:14, 00:00:14, 2-03:04:05: what a process has computed, or when it started. 8000:8000 is none.
bool is_time(std::string_view word) {
  const size_t colon = word.find(':');
  if (colon == 0 || colon == std::string_view::npos || kDigits.find(word[0]) >= kDigits.size() ||
      word.find_first_not_of("0123456789-") != colon)
    return false;
  for (word.remove_prefix(colon); !word.empty(); word.remove_prefix(3)) {
    const bool is_part = word.size() >= 3 && word[0] == ':' && word[1] >= '0' && word[1] <= '5' &&
                         kDigits.find(word[2]) < kDigits.size();
    if (!is_part) return false;
  }
  return true;
}

/// Place of the command's first word in a line of `ps`; 0: it is none.
size_t command_at(const Words& words) {
  constexpr size_t kFewest = 3, kMost = 10;  // columns before the command
  if (words.size() < kFewest || words[1].find_first_not_of(kDigits) != std::string::npos) return 0;
  for (size_t i = std::min(words.size() - 2, kMost); i >= kFewest - 1; --i)
    if (is_time(words[i])) return i + 1;
  return 0;
}

/// True for a word that begins JSON: {"a":1}, --flag={"a":1}.
bool begins_json(std::string_view word) {
  const size_t brace = word.find_first_of("{[");
  return brace == 0 || (brace != std::string_view::npos && word[brace - 1] == '=');
}

/// The words as a shell would read them: what an open brace begins is one word to its end.
std::string shell_line(std::span<const std::string> words) {
  std::string line, json;
  std::ptrdiff_t open = 0;  // braces
  for (const std::string& word : words) {
    if (open > 0 || begins_json(word)) {
      open += std::ranges::count(word, '{') + std::ranges::count(word, '[') -
              std::ranges::count(word, '}') - std::ranges::count(word, ']');
      json += json.empty() ? word : " " + word;
      if (open > 0) continue;
      open = 0;
      line += shell_quoted(std::exchange(json, "")) + " ";
    } else {
      line += shell_quoted(word) + " ";
    }
  }
  return json.empty() ? line : line + shell_quoted(json);
}

}  // namespace

std::string commands_of_process_list(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream stream(line);
    Words words;
    for (std::string word; stream >> word;) words.push_back(std::move(word));
    const size_t at = command_at(words);
    if (at > 0) line = shell_line(std::span(words).subspan(at));
    result += line + "\n";
  }
  return result;
}

}  // namespace plimsoll::cli
