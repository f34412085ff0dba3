#include "cli/completion/completion.h"

#include <algorithm>
#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/arguments.h"
#include "cli/help.h"
#include "cli/value_flag.h"
#include "hardware/gpu_catalogue.h"

namespace plimsoll::cli {
namespace {

// A value's type says what it may be: words and placeholders, "auto|N", "DIR|FILE|ID".
void read_type(const std::string& type, CompletedFlag& flag) {
  std::istringstream parts(type);
  for (std::string part; std::getline(parts, part, '|');) {
    if (part.starts_with("FILE") || part.starts_with("DIR")) flag.takes_file = true;
    const bool is_word = !part.empty() && std::ranges::all_of(part, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
    if (is_word) flag.words.push_back(part);
  }
}

CompletedFlag completed(const CLI::Option& option) {
  CompletedFlag flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) {
    const std::string_view other = short_name("--" + name);
    if (!other.empty()) flag.names.emplace_back(other);
    flag.names.push_back("--" + name);
  }
  flag.help = option.get_description();
  flag.takes_value = option.get_items_expected_max() > 0;
  if (flag.takes_value) read_type(option.get_type_name(), flag);
  if (option.check_lname("gpu")) {
    for (const hardware::Gpu& gpu : hardware::gpu_catalogue()) flag.words.push_back(gpu.name);
  }
  return flag;
}

CompletedCommand completed(const CLI::App& app) {
  CompletedCommand command{app.get_name(), app.get_description(), {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // the other command's flags, and positions
    CompletedFlag flag = completed(*option);
    if (!flag.names.empty()) command.flags.push_back(std::move(flag));
  }
  return command;
}

}  // namespace

std::vector<CompletedCommand> completed_commands(const CLI::App& app) {
  std::vector<CompletedCommand> commands{completed(app)};
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(completed(*command));
  return commands;
}

void add_completion_flag(CLI::App& app) {
  value_flag(app, "--completion", "bash|zsh|fish", "the shell's completion script",
             [&app](const std::string& shell) {
               const auto commands = completed_commands(app);
               if (shell == "bash") throw HelpWanted{bash_completion(commands)};
               if (shell == "zsh") throw HelpWanted{zsh_completion(commands)};
               if (shell == "fish") throw HelpWanted{fish_completion(commands)};
               throw std::invalid_argument("expected bash, zsh or fish");
             });
}

}  // namespace plimsoll::cli
