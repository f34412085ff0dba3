// Synchronisation of ranks' kernels through each other's memory (backend/cuda/rank_area.h). For
// their sources alone.
#pragma once

#include "kernels/ranks/ranks.h"
#include "kernels/ranks/tree.h"
#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {

using backend::cuda::BarrierFlags;
using backend::cuda::kBarrierBytes;
using backend::cuda::kMostRanks;
using backend::cuda::kRankPieceBytes;

__device__ inline BarrierFlags* barriers_of(const RankAreas& areas, int rank) {
  return reinterpret_cast<BarrierFlags*>(areas.area[rank]);
}

template <typename T>
__device__ T* matrix_of(const RankAreas& areas, int rank, uint32_t call) {
  return reinterpret_cast<T*>(areas.area[rank] + kBarrierBytes + (call & 1) * kRankPieceBytes);
}

// Publishes a value: a reader of it sees all that the block wrote before (its threads have
// synchronised).
__device__ inline void tell(uint32_t* at, uint32_t value) {
#ifdef PLIMSOLL_EMULATION
  *at = value;
#else
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
#endif
}

__device__ inline uint32_t hear(const uint32_t* at) {
#ifdef PLIMSOLL_EMULATION
  emulation::let_others_run();
  return *at;
#else
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
#endif
}

/// The number of the call that begins: equal on all ranks, which make the same calls.
__device__ inline uint32_t begin(const RankAreas& areas) {
  return *static_cast<volatile uint32_t*>(&barriers_of(areas, areas.rank)->calls) + 1;
}

/// Waits until blocks of this number have come here on all ranks.
__device__ inline void barrier(const RankAreas& areas, int point, uint32_t call) {
  __syncthreads();
  const int other = static_cast<int>(threadIdx.x);
  if (other < areas.ranks)
    tell(&barriers_of(areas, other)->arrived[point][blockIdx.x][areas.rank], call);
  __syncwarp();
  if (other < areas.ranks) {
    const uint32_t* came = &barriers_of(areas, areas.rank)->arrived[point][blockIdx.x][other];
    // Another rank may be in the next call already.
    for (int turn = 1; static_cast<int32_t>(hear(came) - call) < 0; ++turn)
      if (turn % 256 == 16 && *static_cast<const volatile int*>(areas.aborted) != 0) break;
  }
  __syncthreads();
}

/// Ends a call, in its last block.
__device__ inline void end(const RankAreas& areas, uint32_t call) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  BarrierFlags* own = barriers_of(areas, areas.rank);
  __threadfence();
  if (atomicAdd(&own->ended, 1u) != gridDim.x - 1) return;
  own->ended = 0;
  own->calls = call;
}

/// Place i of all ranks' matrices in a tree of pairs: (0 + 1) + (2 + 3), where + is `join`.
template <typename T, int N, typename Join>
__device__ Pack<T, N> join_all(const RankAreas& areas, uint32_t call, int64_t i, Join join) {
  Pack<T, N> all[kMostRanks];
  for (int rank = 0; rank < kMostRanks; ++rank) {
    if (rank < areas.ranks) all[rank] = matrix_of<Pack<T, N>>(areas, rank, call)[i];
  }
  return join_tree(all, areas.ranks, join);
}

}  // namespace plimsoll::kernels
