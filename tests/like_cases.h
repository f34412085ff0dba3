// How many of like cases a test runs: all, or one in a few, the same ones each time. All where a
// program is run by hand; few under sanitizers, which make it ten times slower, and in tests/run.
// PLIMSOLL_CASES=all or few overrides that.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string_view>

namespace plimsoll::testing {

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline bool takes_all_cases() {
  const char* cases = std::getenv("PLIMSOLL_CASES");
  return cases != nullptr ? std::string_view(cases) == "all" : !kSanitized;
}

/// True when the case of this number is run; one in `few` is, unless all are.
inline bool is_taken(size_t number, size_t few) {
  return takes_all_cases() || number % few == 0;
}

/// Number of tries: `all`, or `few`.
inline int times(int all, int few) {
  return takes_all_cases() ? all : few;
}

}  // namespace plimsoll::testing
