// How many of like cases a test runs: all, or one in a few, the same ones each time. All where a
// program is run by hand; few under sanitizers, which make it ten times slower, and in tests/run.
// PLIMSOLL_CASES=all or few overrides that.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::testing {

#ifdef PLIMSOLL_SANITIZED
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

/// As is_taken, for cases that the suite runs in the release build too: there all of them are.
inline bool is_taken_sanitized(size_t number, size_t few) {
  return !kSanitized || is_taken(number, few);
}

/// The names of like cases that are run, for GENERATE(from_range(...)).
inline std::vector<std::string> names_taken(std::initializer_list<const char*> names, size_t few) {
  std::vector<std::string> taken;
  size_t number = 0;
  for (const char* name : names) {
    if (is_taken(number++, few)) taken.emplace_back(name);
  }
  return taken;
}

/// Number of tries: `all`, or `few`.
inline int times(int all, int few) {
  return takes_all_cases() ? all : few;
}

}  // namespace plimsoll::testing
