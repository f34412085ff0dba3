// How many of like cases a test goes over: all, or one in a few, the same ones each time. All where
// a program is run by hand; few under sanitizers, which make it ten times slower, and in tests/run.
// PLIMSOLL_CASES=all or few says otherwise.
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

/// Whether the case of this number is gone over, of which else one in `few` is.
inline bool is_taken(size_t number, size_t few) {
  return takes_all_cases() || number % few == 0;
}

/// How often something is tried.
inline int times(int all, int few) {
  return takes_all_cases() ? all : few;
}

}  // namespace plimsoll::testing
