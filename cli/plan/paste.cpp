// A pasted command line of vLLM, as flags of `plan`.
#include <fmt/format.h>
#include <algorithm>
#include <CLI/CLI.hpp>
#include <optional>

#include "base/error.h"
#include "cli/arguments.h"
#include "cli/plan/options.h"

namespace plimsoll::cli {
namespace {

/// Words of a shell line: quotes, backslashes, line continuations.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool inside = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < line.size()) {
        word += line[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      inside = true;
    } else if (c == '\\' && i + 1 < line.size()) {
      if (line[++i] != '\n') {
        word += line[i];
        inside = true;
      }
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (inside) words.push_back(word);
      word.clear();
      inside = false;
    } else {
      word += c;
      inside = true;
    }
  }
  if (quote != 0) fail(ExitCode::usage, "--from: a quote is not closed");
  if (inside) words.push_back(word);
  return words;
}

bool is_assignment(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && word[0] != '-' &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// The first word after the program: "vllm serve", "vllm bench ...", "python -m vllm....".
size_t after_program(const std::vector<std::string>& words) {
  size_t at = 0;
  while (at < words.size() && (is_assignment(words[at]) || words[at] == "env")) ++at;
  for (size_t i = at; i < words.size(); ++i) {
    if (words[i] == "serve" || words[i] == "run-batch" || words[i] == "throughput" ||
        words[i] == "latency" || words[i].starts_with("vllm.entrypoints")) {
      return i + 1;
    }
  }
  return at;
}

std::string with_nearest(const std::string& name, const CLI::App& known) {
  const std::string nearest = nearest_flag(name, known);
  return nearest.empty() ? name : fmt::format("{} (did you mean {}?)", name, nearest);
}

}  // namespace

std::vector<std::string> expand_pasted_line(std::vector<std::string> arguments) {
  const auto from =
      std::find_if(arguments.begin(), arguments.end(), [](const std::string& argument) {
        return argument == "--from" || argument.starts_with("--from=");
      });
  if (from == arguments.end()) return arguments;
  std::string line;
  auto end = from + 1;
  if (*from != "--from") {
    line = from->substr(std::string("--from=").size());
  } else {
    if (end == arguments.end())
      fail(ExitCode::usage, "--from: a command line is missing, such as 'vllm serve MODEL'");
    line = *end++;
  }
  PlanOptions scratch;
  CLI::App known("", "");
  declare_plan_flags(known, scratch);
  const std::vector<std::string> words = shell_words(line);
  const size_t first = after_program(words);
  std::vector<std::string> expanded = {"--engine", "vllm"};
  const std::vector<std::string> given =
      rewrite_arguments({words.begin() + static_cast<std::ptrdiff_t>(first), words.end()});
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    if (!word.starts_with("-") || word == "-") {
      expanded.push_back(word);
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* option = known.get_option_no_throw(name);
    const bool value_follows = word.find('=') == std::string::npos && i + 1 < given.size() &&
                               !given[i + 1].starts_with("-");
    if (option == nullptr) {
      expanded.push_back("--unknown-flag=" + with_nearest(name, known));
      if (value_follows) ++i;
      continue;
    }
    expanded.push_back(word);
    if (value_follows && option->get_items_expected_max() > 0) expanded.push_back(given[++i]);
  }
  const auto at = arguments.erase(from, end);
  // After the command's name, before what was given beside --from, which has the last word.
  const auto place = arguments.empty() ? at : arguments.begin() + 1;
  arguments.insert(place, expanded.begin(), expanded.end());
  return arguments;
}

}  // namespace plimsoll::cli
