// Splits a shell text into commands and words (POSIX, chapter 2: quotes, operators, redirections).
#pragma once

#include <string>
#include <vector>

#include "cli/plan/paste/pasted_launch.h"
#include "cli/plan/paste/shell/shell_parameters.h"

namespace plimsoll::cli {

/// The words of each command; redirections and comments are left out. "$NAME" and "${NAME...}"
/// become values (shell_parameters.h) of `variables`, to which commands of assignments alone,
/// `export`, `local` and their like add; an unknown variable stays as written. Throws Error(usage).
std::vector<Words> shell_commands(const std::string& text, Variables& variables);

/// The text with "$NAME" and "${NAME...}" as shell_commands reads them within quotes.
std::string expand_variables(const std::string& text, Variables& variables);

}  // namespace plimsoll::cli
