// Which pieces of the host's slab a step copies to the device.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/backend.h"

namespace plimsoll::kernels {

/// Bytes [begin, end) of the slab.
struct Extent {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const Extent&) const = default;
};

/// Extents that lie less than this apart are copied as one: what a copy costs to start is what this
/// many bytes cost to move.
inline constexpr size_t kCopyGap = size_t{32} << 10;

/// Sorted by address, empty ones left out, near ones joined.
std::vector<Extent> join_extents(std::vector<Extent> extents, size_t gap);

/// All flat arrays of a batch; not its block tables, of which only the first columns are used.
std::vector<Extent> flat_extents(const backend::BatchMeta& batch);

}  // namespace plimsoll::kernels
