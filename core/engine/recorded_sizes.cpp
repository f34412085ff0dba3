// Sizes of the decode steps that a device records.
#include <algorithm>

#include "base/error.h"
#include "engine/layout.h"

namespace plimsoll::engine {

namespace {

/// Small steps are hurt most by what padding adds: 1, 2, 4, then by 8 to 128, by 16 to 256, by 32
/// to 512 and so on: 43 sizes up to 1024.
std::vector<int64_t> default_sizes(int64_t sequences) {
  std::vector<int64_t> sizes = {1, 2, 4};
  for (int64_t size = 8, step = 8; size < sequences; size += step) {
    sizes.push_back(size);
    if (size >= 16 * step) step *= 2;
  }
  sizes.push_back(sequences);
  return sizes;
}

}  // namespace

std::vector<int64_t> recorded_sizes(const EngineOptions& options, int64_t sequences,
                                    const backend::Footprint& footprint) {
  if (!footprint.records()) return {};
  std::vector<int64_t> sizes = options.capture_sizes.value_or(default_sizes(sequences));
  std::ranges::sort(sizes);
  if (!sizes.empty() && sizes.front() < 1) {
    fail(ExitCode::usage, "--cudagraph-capture-sizes: {} is not a size", sizes.front());
  }
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (options.largest_recorded > 0) sequences = std::min(sequences, options.largest_recorded);
  sizes.erase(std::ranges::upper_bound(sizes, sequences), sizes.end());
  return sizes;
}

}  // namespace plimsoll::engine
