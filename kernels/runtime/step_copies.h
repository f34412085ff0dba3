// The pieces of the host's slab that a step copies to the device.
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

/// Distance in bytes below which extents are copied as one: starting a copy costs as much as moving
/// this many bytes.
inline constexpr size_t kCopyGap = size_t{32} << 10;

/// Sorts extents by address, drops empty ones, and joins near ones.
std::vector<Extent> join_extents(std::vector<Extent> extents, size_t gap);

/// All flat arrays of a batch; not its block tables, of which only the first columns are used.
std::vector<Extent> flat_extents(const backend::BatchMeta& batch);

}  // namespace plimsoll::kernels
