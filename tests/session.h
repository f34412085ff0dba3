// A run of Catch2, which is compiled once for all programs.
#pragma once

namespace plimsoll::testing {

/// Runs the cases of the arguments. The status says when all that there was to do was skipped.
int run_session(int argc, char** argv);

}  // namespace plimsoll::testing
