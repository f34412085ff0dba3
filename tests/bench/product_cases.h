// Shapes of matrix products: tests/backend checks them, tests/bench times the large ones.
#pragma once

#include <cstdint>

namespace plimsoll::testing {

struct ProductCase {
  const char* name;
  int64_t n;
  int64_t k;
};

/// Corners of the kernels: odd k, n that is no multiple of a strip, more than one block of k.
inline constexpr ProductCase kSmallProducts[] = {
    {"one by one", 1, 1},
    {"odd k", 32, 17},
    {"part of a strip", 31, 64},
    {"a strip and one", 33, 8},
    {"several strips", 200, 96},
    {"two blocks of k", 96, 2050},
    {"part of a strip, five blocks of k", 33, 2050},
};

/// Llama-3.2-1B's.
inline constexpr ProductCase kLargeProducts[] = {
    {"qkv", 3072, 2048},
    {"out", 2048, 2048},
    {"up", 16384, 2048},
    {"down", 2048, 8192},
};

}  // namespace plimsoll::testing
