// Collectives of ranks on devices over matrices that each of them has: kernels that read each
// other's memory, and synchronise there. They can be recorded: all that changes from call to call
// is on the devices.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/rank_area.h"
#include "backend/operands.h"
#include "kernels/products/slices.h"
#include "kernels/rows/rows.h"

namespace plimsoll::kernels {

/// Bytes of a matrix up to which each rank reads all other ranks' matrices; above, it reads a share
/// of each, and then the results of the other shares. Two ranks read as much either way.
inline constexpr size_t kWholeBytes = size_t{512} << 10;

/// The areas (backend/cuda/rank_area.h) of all ranks, as one of them sees them.
struct RankAreas {
  unsigned char* area[backend::cuda::kMostRanks] = {};
  int rank = 0;
  int ranks = 1;
  /// Most blocks of a call: they wait, so the blocks of all ranks on a device must leave room for
  /// others' kernels. At most kMostRankBlocks, and equal for all ranks.
  int blocks = 1;
  /// A flag in host memory: not 0 when a rank has failed and none waits any more.
  const int* aborted = nullptr;
};

/// values = the sum over all ranks, in float32, in a tree of pairs, rounded once. Rows without
/// gaps.
void sum_ranks(const backend::View& values, const RankAreas& areas, cudaStream_t stream);

/// out = the sum of all ranks' slices in one tree of pairs, rounded once: each rank's own sums
/// (kernels/products/slices.h) are a tree too. Columns past the last one of the sums are not
/// written, but read.
void sum_slices(const backend::View& out, const SliceSums& sums, const RankAreas& areas,
                cudaStream_t stream);

/// Sums op.delta as sum_ranks() does, then norm() of it, as one kernel with equal bits. False: it
/// is too large for that, and nothing was done. Loads the kernel either way.
bool sum_add_norm(const NormOp& op, const RankAreas& areas, cudaStream_t stream);

/// values = the largest of all ranks', element by element.
void most_ranks(const backend::View& values, const RankAreas& areas, cudaStream_t stream);

/// Columns of several ranks, gathered side by side: those of rank i * alike become columns [i n, (i
/// + 1) n) of `to`, where it has them.
struct RankColumns {
  backend::View from;  // [rows, n]
  backend::View to;    // [rows, m]; without data: this rank only sends
  int first = 0;       // rank of the first columns
  int alike = 1;
};
void collect_columns(const RankColumns& op, const RankAreas& areas, cudaStream_t stream);

}  // namespace plimsoll::kernels
