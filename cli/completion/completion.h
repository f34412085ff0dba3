// Shell completion of commands, flags and values, generated from the declared flags.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

struct CompletedFlag {
  std::vector<std::string> names;  // "-i", "--input-file"; also "-tp"
  std::string help;
  bool takes_value = false;
  bool takes_file = false;
  std::vector<std::string> words;  // values that have a name, such as "auto"
};

struct CompletedCommand {
  std::string name;  // empty: the program itself
  std::string help;
  std::vector<CompletedFlag> flags;  // all that --help shows
};

/// The program itself and its commands, as they declare their flags.
std::vector<CompletedCommand> completed_commands(const CLI::App& app);

std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

/// Declares --completion SHELL, which prints the shell's script; `app` must outlive the parsing.
void add_completion_flag(CLI::App& app);

}  // namespace plimsoll::cli
