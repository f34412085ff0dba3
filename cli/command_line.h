// The program behind its main.
#pragma once

#include <string_view>

namespace plimsoll::cli {

/// Runs the command of the arguments, says what failed, and returns the exit status. `commit` is
/// kCommit.
int run_program(int argc, char** argv, std::string_view commit);

}  // namespace plimsoll::cli
