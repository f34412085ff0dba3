#include <fmt/format.h>

#include "cli/completion/completion.h"

namespace plimsoll::cli {
namespace {

// "run:--format) values='json ids' ;;": what stands behind a flag that takes a value.
std::string value_case(const std::string& command, const CompletedFlag& flag) {
  std::vector<std::string> patterns;
  for (const std::string& name : flag.names) patterns.push_back(command + ":" + name);
  return fmt::format("    {}) values='{}' files={} ;;\n", fmt::join(patterns, "|"),
                     fmt::join(flag.words, " "), flag.takes_file ? "yes" : "no");
}

std::string flags_case(const CompletedCommand& command) {
  std::vector<std::string> names;
  for (const CompletedFlag& flag : command.flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return fmt::format("      {}) values='{}' ;;\n", command.name, fmt::join(names, " "));
}

}  // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> names;
  std::string flags, values;
  for (const CompletedCommand& command : commands) {
    if (!command.name.empty()) {
      names.push_back(command.name);
      flags += flags_case(command);
    }
    for (const CompletedFlag& flag : command.flags) {
      if (flag.takes_value) values += value_case(command.name, flag);
    }
  }
  std::vector<std::string> own;
  for (const CompletedFlag& flag : commands.front().flags) {
    own.insert(own.end(), flag.names.begin(), flag.names.end());
  }
  // Bash makes "=" a word of its own.
  return fmt::format(
      R"(# bash completion for plimsoll, made by plimsoll --completion bash
_plimsoll() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} command= values= files=unset
  [ "$COMP_CWORD" -gt 1 ] && case ${{COMP_WORDS[1]}} in {}) command=${{COMP_WORDS[1]}} ;; esac
  if [ "$word" = = ]; then
    word=
  elif [ "$before" = = ]; then
    before=${{COMP_WORDS[COMP_CWORD-2]}}
  fi
  case $command:$before in
{}  esac
  if [ "$files" = unset ]; then
    case $command in
{}      *) values='{} {}' ;;
    esac
    [[ $word == -* || -z $command ]] || {{ values= files=yes; }}
  fi
  COMPREPLY=($(compgen -W "$values" -- "$word"))
  [ "$files" = yes ] && COMPREPLY+=($(compgen -f -- "$word")) && compopt -o filenames 2>/dev/null
}}
complete -F _plimsoll plimsoll
)",
      fmt::join(names, "|"), values, flags, fmt::join(names, " "), fmt::join(own, " "));
}

}  // namespace plimsoll::cli
