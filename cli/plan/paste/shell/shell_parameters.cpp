#include "cli/plan/paste/shell/shell_parameters.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cli/plan/paste/shell/shell_words.h"

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
  if (inside == "@" || inside == "*") {
    const auto all = variables.find("@");
    return all == variables.end() ? std::nullopt : std::optional(all->second);
  }
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

namespace {

size_t skip_blanks(const std::string& text, size_t at, const char* blanks = " \t\r") {
  return std::min(text.find_first_not_of(blanks, at), text.size());
}

/// The place behind the brace that closes the one at `at`, but for those in quotes and comments;
/// 0: there is none.
size_t behind_braces(const std::string& text, size_t at) {
  for (int depth = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\') {
      ++at;
    } else if (c == '\'' || c == '"') {
      for (++at; at < text.size() && text[at] != c; ++at)
        if (c == '"' && text[at] == '\\') ++at;
    } else if (c == '#' && std::isspace(static_cast<unsigned char>(text[at - 1])) != 0) {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return 0;
}

/// Reads what stands before the brace of a function at `at`: "NAME ()", "function NAME". Returns
/// its name and moves `at` to the brace; empty: no function begins here.
std::string function_name(const std::string& text, size_t& at) {
  constexpr std::string_view kWord = "function ";
  at = skip_blanks(text, at);
  const bool by_word = text.compare(at, kWord.size(), kWord) == 0;
  if (by_word) at = skip_blanks(text, at + kWord.size());
  const size_t begin = at;
  while (at < text.size() && (is_name_char(text[at]) || text[at] == '-')) ++at;
  std::string name = text.substr(begin, at - begin);
  at = skip_blanks(text, at);
  const bool brackets = at < text.size() && text[at] == '(';
  if (brackets) {
    at = skip_blanks(text, at + 1);
    if (at >= text.size() || text[at] != ')') return "";
    at = skip_blanks(text, at + 1);
  }
  if (name.empty() || !(brackets || by_word)) return "";
  at = skip_blanks(text, at, " \t\r\n");
  return at < text.size() && text[at] == '{' ? name : "";
}

}  // namespace

Variables take_functions(std::string& text) {
  constexpr int kMostTried = 64;  // the end of each may be sought through the whole text
  Variables functions;
  int tried = 0;
  for (size_t line = 0; line < text.size() && tried < kMostTried;) {
    size_t at = line;
    const std::string name = function_name(text, at);
    const size_t end = name.empty() ? 0 : behind_braces(text, at);
    if (!name.empty()) ++tried;
    if (end != 0) {
      functions[name] = text.substr(at + 1, end - at - 2);
      text.erase(line, end - line);
    }
    line = std::min(text.find('\n', line), text.size()) + 1;
  }
  return functions;
}

void set_arguments(const Words& words, size_t at, Variables& variables) {
  std::erase_if(variables, [](const auto& one) {
    return std::ranges::all_of(one.first, [](char c) { return c >= '0' && c <= '9'; });
  });
  std::string all;
  for (size_t i = at + 1; i < words.size(); ++i) {
    variables[std::to_string(i - at)] = words[i];
    all += (i > at + 1 ? std::string(1, kBetweenWords) : "") + words[i];
  }
  variables["@"] = all;
}

void shift_arguments(const Words& command, Variables& variables) {
  if (command.empty() || command.size() > 2 || command.front() != "shift") return;
  Words left;
  for (size_t number = 1; variables.contains(std::to_string(number)); ++number)
    left.push_back(variables[std::to_string(number)]);
  const int64_t count = command.size() == 1 ? 1 : product_of(command[1]);
  const auto most = static_cast<int64_t>(left.size());
  left.erase(left.begin(), left.begin() + std::clamp<int64_t>(count, 0, most));
  left.insert(left.begin(), "");  // the function's name
  if (most > 0) set_arguments(left, 0, variables);
}

void keep_echo(const Words& command, const std::string& file, Variables& variables) {
  std::string body;
  for (size_t i = 1; i < command.size(); ++i)
    if (!command[i].starts_with("-")) body += (body.empty() ? "" : " ") + command[i];
  for (size_t at = body.find("\\n"); at != std::string::npos; at = body.find("\\n", at))
    body.replace(at, 2, "\n");
  variables[file_variable(file)] += body + "\n";  // ">>" appends; a file is written once
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
