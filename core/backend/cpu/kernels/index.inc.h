// Scores of an indexer for one query row with all its heads, over a paged cache of keys. A key's
// score is summed head by head, so its bits depend on query and key alone.
#pragma once

#include <utility>

#include "backend/cpu/kernels/attention.inc.h"

namespace plimsoll::backend {
namespace {

constexpr int kGroupVectors = static_cast<int>(kAttentionGroup) / kLanes;

/// sums += weights * max(q k, 0) of the heads [row, row + R) for the group's tokens.
template <typename C, int R>
void add_heads(const IndexTile& t, const AttentionState& state, const AttentionGroup& group,
               int row, Vf* sums) {
  const int64_t columns = key_columns(t.query.head_dim);
  for (int v = 0; v < kGroupVectors; v += 4)
    score<C, R, 4>(state.q + row * columns, columns, group, v, state.scores);
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kGroupVectors; ++v) {
      // NaN would become 0 with the arguments of max() the other way round.
      const Vf product = load(state.scores + r * kAttentionGroup + v * kLanes);
      sums[v] = fma(splat(t.weights[row + r]), max(splat(0.f), product), sums[v]);
    }
}

/// The scores of one group's tokens, also of tokens outside [begin, end).
template <typename C>
void score_group(const IndexTile& t, const AttentionState& state, const AttentionGroup& group,
                 float* scores) {
  using Function =
      void (*)(const IndexTile&, const AttentionState&, const AttentionGroup&, int, Vf*);
  Vf sums[kGroupVectors];
  for (Vf& sum : sums) sum = splat(0.f);
  for (int row = 0; row < state.rows; row += kAttentionTileRows) {
    const int left = state.rows - row;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      static constexpr Function kByHeads[] = {add_heads<C, I + 1>...};
      kByHeads[(left < kAttentionTileRows ? left : kAttentionTileRows) - 1](t, state, group, row,
                                                                            sums);
    }
    (std::make_integer_sequence<int, kAttentionTileRows>{});
  }
  for (int v = 0; v < kGroupVectors; ++v) store(scores + v * kLanes, sums[v]);
}

template <typename C>
void score_cache(const IndexTile& t) {
  const AttentionState state(t.query);
  pack_queries(t.query, state);
  const int64_t first = t.begin / kAttentionGroup * kAttentionGroup;
  AttentionGroup next = locate_group(t.query, state.gathered, first, t.begin, t.end);
  for (int64_t start = first; start < t.end; start += kAttentionGroup) {
    AttentionGroup group = next;
    if (start + kAttentionGroup < t.end)
      next = locate_group(t.query, state.gathered, start + kAttentionGroup, t.begin, t.end);
    gather_tokens<C>(t.query, group, state.gathered);
    for (int i = 0; i < kGroupTiles; ++i) group.next_keys[i] = next.keys[i];
    float scores[kAttentionGroup];
    score_group<C>(t, state, group, scores);
    for (int i = 0; i < kGroupTiles; ++i)
      for (int lane = group.first[i]; lane < group.last[i]; ++lane)
        t.scores[group.start + i * kTile + lane] += scores[i * kTile + lane];
  }
}

void score_keys(const IndexTile& tile) {
  if (tile.query.dtype == DType::bf16) return score_cache<Bf16Cache>(tile);
  if (tile.query.dtype == DType::f16) return score_cache<F16Cache>(tile);
  if (tile.query.dtype == DType::f8_e4m3) return score_cache<E4m3Cache>(tile);
  score_cache<F32Cache>(tile);
}

}  // namespace
}  // namespace plimsoll::backend
