#include <fmt/format.h>

#include "cli/completion/completion.h"

namespace plimsoll::cli {
namespace {

// Text within single quotes and brackets of _arguments.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += R"('\'')";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string action(const CompletedFlag& flag) {
  if (!flag.takes_value) return "";
  if (!flag.words.empty() && !flag.takes_file) {
    return fmt::format(":value:({})", fmt::join(flag.words, " "));
  }
  return flag.takes_file ? ":file:_files" : ":value: ";
}

std::string specs(const CompletedCommand& command) {
  std::string text;
  for (const CompletedFlag& flag : command.flags) {
    for (const std::string& name : flag.names) {
      const char* joint = !flag.takes_value ? "" : name.starts_with("--") ? "=" : "+";
      text +=
          fmt::format("        '*{}{}[{}]{}' \\\n", name, joint, escaped(flag.help), action(flag));
    }
  }
  return text;
}

}  // namespace

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
  std::string names, cases;
  for (const CompletedCommand& command : commands) {
    if (command.name.empty()) continue;
    names += fmt::format("    '{}:{}'\n", command.name, escaped(command.help));
    cases += fmt::format("    {})\n      _arguments \\\n{}        '*:file:_files' ;;\n",
                         command.name, specs(command));
  }
  return fmt::format(R"(#compdef plimsoll
# zsh completion for plimsoll, made by plimsoll --completion zsh
_plimsoll() {{
  local -a commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe -t commands command commands
    _arguments \
{}        && return
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{}  esac
}}
if [ "${{funcstack[1]}}" = _plimsoll ]; then
  _plimsoll "$@"
else
  compdef _plimsoll plimsoll
fi
)",
                     names, specs(commands.front()), cases);
}

}  // namespace plimsoll::cli
