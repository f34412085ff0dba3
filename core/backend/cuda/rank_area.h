// Memory in which ranks on devices exchange matrices: each has an area that all others read and
// write.
//
//   | meetings | matrix, of even calls | matrix, of odd calls |
//
// Two matrices, because slower ranks still read what a call wrote when the next call begins, but
// not when the one after that does.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plimsoll::backend::cuda {

inline constexpr int kMostRanks = 8;
inline constexpr int kMostRankBlocks = 64;
/// Bytes of a matrix that a call exchanges; larger matrices go in pieces.
inline constexpr size_t kRankPieceBytes = size_t{8} << 20;

/// Progress of all ranks, in one rank's memory. Blocks of one number wait for each other, at up to
/// two points of a call.
struct BarrierFlags {
  uint32_t calls;                                    // calls that have ended here
  uint32_t ended;                                    // blocks of the call that runs
  uint32_t arrived[2][kMostRankBlocks][kMostRanks];  // the call that each rank has come to
};

inline constexpr size_t kBarrierBytes = size_t{8} << 10;
static_assert(sizeof(BarrierFlags) <= kBarrierBytes);
inline constexpr size_t kRankAreaBytes = kBarrierBytes + 2 * kRankPieceBytes;

/// Bytes of the area of one of `ranks` ranks.
constexpr size_t rank_area_bytes(int64_t ranks) {
  return ranks > 1 ? kRankAreaBytes : 0;
}

/// Calls that a matrix of `bytes` bytes takes.
constexpr int64_t rank_pieces(size_t bytes) {
  return static_cast<int64_t>((bytes + kRankPieceBytes - 1) / kRankPieceBytes);
}

}  // namespace plimsoll::backend::cuda
