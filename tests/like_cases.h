// How many of like cases a test goes over: all, but under sanitizers, which make it ten times
// slower, one in a few, the same ones each time. PLIMSOLL_ALL_CASES=1 takes all there too.
#pragma once

#include <cstddef>
#include <cstdlib>

namespace plimsoll::testing {

inline bool takes_all_cases() {
#ifdef __SANITIZE_ADDRESS__
  return std::getenv("PLIMSOLL_ALL_CASES") != nullptr;
#else
  return true;
#endif
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
