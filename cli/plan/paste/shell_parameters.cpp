#include "cli/plan/paste/shell_parameters.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cli/plan/paste/shell_words.h"

namespace plimsoll::cli {

bool is_assignment(const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0 || word.substr(equals).starts_with("=="))
    return false;
  const size_t end = equals - (word[equals - 1] == '+' ? 1 : 0);
  return end > 0 && std::isdigit(static_cast<unsigned char>(word[0])) == 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), is_name_char);
}

void assign(Variables& variables, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  std::string name = assignment.substr(0, equals);
  const std::string value = assignment.substr(equals + 1);
  if (name == "Environment" && is_assignment(value)) return assign(variables, value);  // of systemd
  if (!name.ends_with('+')) {
    variables[name] = value;
    return;
  }
  name.pop_back();
  variables[name] += value;
}

void assign_array(Variables& variables, const std::string& begin, const Words& words) {
  const bool appends = begin.ends_with("+=");
  const std::string name = begin.substr(0, begin.size() - (appends ? 2 : 1)) + "[@]";
  std::string& value = variables[name];
  if (!appends) value.clear();
  for (const std::string& word : words) value += (value.empty() ? "" : "\x1f") + word;
}

std::optional<std::string> parameter_value(const std::string& inside, Variables& variables) {
  size_t end = 0;
  while (end < inside.size() && is_name_char(inside[end])) ++end;
  const std::string name = inside.substr(0, end);
  std::string form = inside.substr(end);
  if (form == "[@]" || form == "[*]") {
    const auto array = variables.find(name + "[@]");
    return array == variables.end() ? std::nullopt : std::optional(array->second);
  }
  const auto known = variables.find(name);
  const bool colon = form.starts_with(':');
  if (colon) form.erase(0, 1);
  const bool is_set = known != variables.end() && !(colon && known->second.empty());
  if (form.empty()) return is_set && !colon ? std::optional(known->second) : std::nullopt;
  const char kind = form[0];
  const std::string word = form.substr(1);
  if (kind == '+') return is_set ? expand_variables(word, variables) : "";
  if (kind != '-' && kind != '=' && kind != '?') return std::nullopt;
  if (is_set) return known->second;
  if (kind == '?' || word.empty()) return std::nullopt;
  std::string value = expand_variables(word, variables);
  if (kind == '=') variables[name] = value;
  return value;
}

int64_t product_of(const std::string& text) {
  int64_t value = 1;
  for (size_t at = 0; (at = text.find_first_of("0123456789", at)) != std::string::npos;) {
    int64_t factor = 0;
    const auto [last, error] = std::from_chars(text.data() + at, text.data() + text.size(), factor);
    if (error != std::errc() || __builtin_mul_overflow(value, factor, &value)) value = 0;
    at = static_cast<size_t>(last - text.data());
  }
  return value;
}

void begin_loop(const Words& command, Variables& variables) {
  if (command.size() > 3 && command[0] == "for" && command[2] == "in")
    variables[command[1]] = command[3];
}

void drop_prompt(Words& words) {
  const auto ends = [](const std::string& word) {
    return word.ends_with('$') || word.ends_with('#') || word == "%";
  };
  for (size_t i = 0; i < std::min<size_t>(2, words.size()); ++i) {
    if (!ends(words[i]) || words[0].starts_with('-')) continue;
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return;
  }
}

}  // namespace plimsoll::cli
