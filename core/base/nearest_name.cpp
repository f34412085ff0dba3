#include "base/nearest_name.h"

#include <algorithm>
#include <vector>

namespace plimsoll {
namespace {

// Optimal string alignment distance: insertions, deletions, changes, swaps of neighbours.
size_t edits(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names) {
  if (name.size() > 64) return {};
  std::string_view best;
  size_t fewest = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : names) {
    const size_t count = edits(name, candidate);
    if (count < fewest) {
      fewest = count;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view nearest) {
  return nearest.empty() ? std::string() : "; did you mean " + std::string(nearest) + "?";
}

}  // namespace plimsoll
