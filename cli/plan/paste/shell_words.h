// Splits a shell text into commands and words (POSIX, chapter 2: quotes, operators, redirections).
#pragma once

#include <string>
#include <vector>

#include "cli/plan/paste/pasted_launch.h"

namespace plimsoll::cli {

/// True for NAME=VALUE with a shell's name.
bool is_assignment(const std::string& word);
void assign(Variables& variables, const std::string& assignment);

/// The words of each command; redirections and comments are left out. "$NAME", "${NAME}" and
/// "${NAME:-default}" become values of `variables`, to which commands of assignments alone and
/// `export` add; an unknown variable stays as written. Throws Error(usage).
std::vector<Words> shell_commands(const std::string& text, Variables& variables);

/// The text with "$NAME", "${NAME}" and "${NAME:-default}" as shell_commands reads them.
std::string expand_variables(const std::string& text, Variables& variables);

}  // namespace plimsoll::cli
