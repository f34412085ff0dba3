// Cases that cannot run here say so, and ctest counts a test of which nothing could run as skipped.
#pragma once

#include <string>

namespace plimsoll::testing {

/// Exit status that ctest takes for "skipped" (SKIP_RETURN_CODE in tests/CMakeLists.txt).
inline constexpr int kSkippedStatus = 77;

/// Skips the case; to be followed by a return. The reason is printed, and remembered for the
/// program's end.
void skip(const std::string& why);
/// The program's status, given that of Catch2: kSkippedStatus if cases were skipped and none of the
/// others asserted anything.
int status_after(int catch_status);

}  // namespace plimsoll::testing
