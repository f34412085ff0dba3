#include "engine/longest_context.h"

#include <algorithm>

namespace plimsoll::engine {

int64_t longest_context(int64_t most, int64_t at_most, int64_t block, const HeldTokens& held) {
  int64_t fits = 0, high = most - 1, next = at_most;  // nothing above `high` fits
  while (high - fits >= block || (next > fits && next <= high)) {
    if (next == 0 && fits == 0) {
      next = std::min(block, high);
    } else if (next <= fits || next > high) {
      next = fits + std::max(block, (high - fits) / 2 / block * block);
    }
    const int64_t tokens = held(next);
    if (tokens >= next) {
      fits = next;
      high = std::min(high, tokens);
      next = high;
    } else {
      high = next - 1;
      next = tokens;
    }
  }
  return fits;
}

}  // namespace plimsoll::engine
