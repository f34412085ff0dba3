// Rewrites the command line before CLI11 parses it, and explains parse errors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cli11_names.h"

namespace plimsoll::cli {

/// Rewrites arguments that CLI11 2.1 cannot parse: "-tp 2", "-tp=2", "-pp", "-dp", "-dcp" become
/// the long flags, "-i=FILE" becomes "-i FILE", "-q METHOD" becomes --quantization (a bare -q
/// stays: quiet); in names of long flags "_" becomes "-"; "--flag.key VALUE" becomes --flag
/// '{"key": VALUE}'. Arguments after "--" stay as they are.
std::vector<std::string> rewrite_arguments(std::vector<std::string> arguments);

/// What is said of a flag whose value is empty, behind its name.
inline constexpr std::string_view kEmpty =
    ": is empty; is a shell variable not set? Leave it out or give a value";

/// Message for a flag that stands where another one's value belongs ("-i -o OUT"), which CLI11
/// takes as the value, for "--flag=", behind which CLI11 takes the next word, or for a switch whose
/// value, also a variable's, is neither true nor false; empty: there is none. The first argument is
/// the command's name.
std::string misplaced_value(const std::vector<std::string>& arguments, const CLI::App& command);

/// The short name that rewrite_arguments() knows of a long flag: "-tp"; empty when it has none.
std::string_view short_name(std::string_view long_name);

/// The known flag that is most like `name`; empty when none is.
std::string nearest_flag(const std::string& name, const CLI::App& command);

/// Message for arguments that begin with a word that is no command; empty when they begin with one.
std::string misspelt_command(const std::vector<std::string>& arguments, const CLI::App& app);

/// Notes on variables PLIMSOLL_* whose names are near misses of the command's flags.
std::vector<std::string> misspelt_variables(const CLI::App& command);

/// One line for a parse error of `command`, which was given `arguments`: with the nearest known
/// flag for a misspelt one, and with the environment variable if one has set the flag.
std::string explain(const CLI::ParseError& error, const CLI::App& command,
                    const std::vector<std::string>& arguments);

/// Quotes a word for a shell where that is needed.
std::string shell_quoted(const std::string& text);

}  // namespace plimsoll::cli
