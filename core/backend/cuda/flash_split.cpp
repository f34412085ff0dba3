#include "backend/cuda/flash_split.h"

#include <algorithm>

#include "base/rounding.h"

namespace plimsoll::backend::cuda {
namespace {

constexpr int64_t kUnit = 128;  // KV tokens that a tile of 16 or 64 reads at a time
// Cost of starting a thread block, in tokens that it could read meanwhile: index arrays, query tile
// and the first KV tile come one after the other. To be measured.
constexpr int64_t kStart = 48;

/// Candidate sizes, descending: 1, 1.25, 1.5 and 1.75 times a power of two.
int64_t smaller(int64_t chunk) {
  int64_t power = kUnit;
  while (power * 2 <= chunk) power *= 2;
  const int64_t step = std::max(kUnit, power / 4);
  if (chunk > power) return chunk - step;
  const int64_t below = power / 2;
  return below < kUnit ? 0 : power - std::max(kUnit, below / 4);
}

int64_t first_candidate(int64_t tokens) {
  int64_t power = kUnit;
  while (power < tokens) power *= 2;
  return power;
}

}  // namespace

int64_t split_cost(std::span<const SplitWork> work, int64_t chunk, const SplitBudget& budget) {
  int64_t items = 0, rows = 0, tiles = 0, tokens = 0, longest = 0;
  for (const SplitWork& w : work) {
    const int64_t chunks = divide_up(w.tokens, chunk);
    items += w.tiles * chunks;
    rows += w.rows * chunks;
    tiles += w.tiles;
    tokens += w.tiles * w.tokens;
    longest = std::max(longest, std::min(w.tokens, chunk));
  }
  if (items == 0) return 0;
  if (rows > budget.rows || items > tiles + budget.extra_items) return -1;
  const int64_t waves = divide_up(items * budget.kv_heads, budget.resident_blocks);
  const int64_t mean = tokens / items;
  // A partial row is written and read once in f32: as many bytes as two tokens of one KV head in 16
  // bits, per query head; all blocks share that.
  const int64_t merging = 2 * rows * budget.kv_heads / budget.resident_blocks;
  return std::max(waves * (mean + kStart), longest + kStart) + merging;
}

int64_t choose_split(std::span<const SplitWork> work, const SplitBudget& budget) {
  int64_t longest = 1;
  for (const SplitWork& w : work) longest = std::max(longest, w.tokens);
  int64_t best = first_candidate(longest);
  int64_t best_cost = split_cost(work, best, budget);
  for (int64_t chunk = smaller(best); chunk > 0; chunk = smaller(chunk)) {
    const int64_t cost = split_cost(work, chunk, budget);
    if (cost < 0) break;  // smaller ones have more chunks still
    if (cost < best_cost) {
      best = chunk;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace plimsoll::backend::cuda
