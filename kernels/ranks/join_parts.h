// Joins parts that ranks which cannot read each other's memory have sent.
#pragma once

#include <cuda_runtime.h>

#include "backend/cuda/rank_area.h"
#include "backend/operands.h"

namespace plimsoll::kernels {

/// A row of each rank, as wide as the result, in this device's memory.
struct RankParts {
  const void* part[backend::cuda::kMostRanks] = {};
  int ranks = 1;
};

enum class RankJoin : uint8_t { sum, most };

/// out [1, n] = the sum, or the largest, of all parts, in float32, in a tree of pairs, rounded
/// once: the bits of sum_ranks() (ranks.h). `out` may be one of the parts.
void join_parts(const backend::View& out, const RankParts& parts, RankJoin join,
                cudaStream_t stream);

}  // namespace plimsoll::kernels
