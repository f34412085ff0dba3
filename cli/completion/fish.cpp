#include <fmt/format.h>

#include "cli/completion/completion.h"

namespace plimsoll::cli {
namespace {

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

// "-s i" of "-i", "-o tp" of "-tp", "-l dtype" of "--dtype".
std::string name_option(const std::string& name) {
  if (name.starts_with("--")) return " -l " + name.substr(2);
  return (name.size() == 2 ? " -s " : " -o ") + name.substr(1);
}

std::string line(const std::string& condition, const CompletedFlag& flag) {
  std::string text = "complete -c plimsoll -n '" + condition + "'";
  for (const std::string& name : flag.names) text += name_option(name);
  if (flag.takes_value) text += flag.takes_file ? " -r -F" : " -x";
  if (!flag.words.empty()) text += fmt::format(" -a '{}'", fmt::join(flag.words, " "));
  return text + " -d " + quoted(flag.help) + "\n";
}

}  // namespace

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
  std::string text =
      "# fish completion for plimsoll, made by plimsoll --completion fish\n"
      "complete -c plimsoll -n __fish_use_subcommand -f\n";
  for (const CompletedCommand& command : commands) {
    std::string condition = "__fish_use_subcommand";
    if (!command.name.empty()) {
      text += fmt::format("complete -c plimsoll -n __fish_use_subcommand -a {} -d {}\n",
                          command.name, quoted(command.help));
      condition = "__fish_seen_subcommand_from " + command.name;
    }
    for (const CompletedFlag& flag : command.flags) text += line(condition, flag);
  }
  return text;
}

}  // namespace plimsoll::cli
