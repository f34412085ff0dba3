// -h (one screen, examples first), --help (every flag, by group), --version.
#pragma once

#include <string>
#include <string_view>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

/// Thrown by the flags: print `text` to standard output and leave with 0.
struct HelpWanted {
  std::string text;
};

/// Puts -h and --help on a command in place of CLI11's.
void add_help_flags(CLI::App& command);

/// What -h shows; `command` is "run", or empty for the program itself.
std::string_view short_help(std::string_view command);
/// What --help shows: the short help, then every flag of the command by group.
std::string full_help(const CLI::App& command);

}  // namespace plimsoll::cli
