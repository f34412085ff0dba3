// The order in which matrices of several ranks are joined: a tree of pairs, in float32, rounded
// once.
#pragma once

#include "backend/cuda/rank_area.h"
#include "kernels/runtime/numeric.h"
#include "kernels/runtime/reduce.h"

namespace plimsoll::kernels {

/// (0 + 1) + (2 + 3), where + is `join`, of the first `ranks` of `all`.
template <typename T, int N, typename Join>
__device__ Pack<T, N> join_tree(const Pack<T, N> (&all)[backend::cuda::kMostRanks], int ranks,
                                Join join) {
  using backend::cuda::kMostRanks;
  Pack<T, N> result;
  for (int j = 0; j < N; ++j) {
    float sums[kMostRanks];
    for (int rank = 0; rank < kMostRanks; ++rank) sums[rank] = rank < ranks ? all[rank].at(j) : 0.f;
    for (int step = 1; step < kMostRanks; step *= 2) {
      if (step >= ranks) break;
      for (int to = 0; to + step < kMostRanks; to += 2 * step)
        sums[to] = join(sums[to], sums[to + step]);
    }
    result.set(j, sums[0]);
  }
  return result;
}

}  // namespace plimsoll::kernels
