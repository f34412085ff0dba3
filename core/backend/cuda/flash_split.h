// Chooses the chunks, in tokens, into which KV ranges are cut: pure functions, numbers in, a number
// out.
#pragma once

#include <cstdint>
#include <span>

namespace plimsoll::backend::cuda {

/// Work of one sequence in a split launch.
struct SplitWork {
  int64_t tokens = 0;  // of its KV range
  int64_t tiles = 0;   // query tiles, each of which reads the range
  int64_t rows = 0;    // query rows, each of which has a partial result per chunk
};

struct SplitBudget {
  int64_t rows = 0;             // of partial results
  int64_t extra_items = 0;      // items beyond one per tile
  int64_t kv_heads = 0;         // each item is a thread block per KV head
  int64_t resident_blocks = 0;  // thread blocks that run at one time
};

/// Cost of a chunk size, in tokens that one thread block reads: the waves of thread blocks times
/// their mean, but not less than the longest, and the merging. -1 where the budget does not allow
/// it.
///
/// Example: one sequence of 32,768 tokens, 8 KV heads, 264 resident blocks. Chunks of 1,024 make 32
/// x 8 = 256 blocks, one wave: 1,024 + start. Chunks of 4,096 make 64 blocks, one wave too, but of
/// 4,096.
int64_t split_cost(std::span<const SplitWork> work, int64_t chunk, const SplitBudget& budget);

/// The cheapest chunk size: a multiple of 128 tokens with at most three leading bits, or one that
/// holds the longest range whole, which is always within a budget of one row per row.
int64_t choose_split(std::span<const SplitWork> work, const SplitBudget& budget);

}  // namespace plimsoll::backend::cuda
