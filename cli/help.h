// -h (one screen, examples first), --help (every flag, by group), --version.
#pragma once

#include <string>
#include <string_view>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

/// Thrown by the flags of help: print `text` to standard output and exit with status 0.
struct HelpWanted {
  std::string text;
};

/// Adds -h and --help to a command in place of CLI11's flags.
void add_help_flags(CLI::App& command);

/// Text of -h; `command` is "run", or empty for the program itself.
std::string_view short_help(std::string_view command);
/// Text of --help: the short help, then every flag of the command by group.
std::string full_help(const CLI::App& command);

}  // namespace plimsoll::cli
