// Attention of some query rows over a paged cache, with a running softmax (Milakov and Gimelshein
// 2018) over groups of 64 tokens, counted from the sequence's start. A token that a row may not see
// adds exactly nothing to it, so a row's bits do not depend on the rows beside it.
#pragma once

#include <utility>

#include "backend/cpu/kernels/groups.inc.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/kernels/vec_math.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

/// Parts of a tile's scratch.
struct AttentionState {
  int rows;
  int64_t width;     // floats of a row of sums: head_dim rounded up to 16
  float* q;          // [row tile][head_dim][rows of the tile], scaled
  float* sums;       // [rows, width] values weighted so far
  float* scores;     // [rows, 64]
  float* best;       // [rows] largest score so far
  float* lane_sums;  // [rows, 16] sums of weights by lane
  GatheredTiles gathered;

  AttentionState(const AttentionTile& t)
      : rows(t.positions * t.heads),
        width(round_up(t.head_dim, 16)),
        q(t.scratch),
        sums(q + kAttentionRows * width),
        scores(sums + kAttentionRows * width),
        best(scores + kAttentionRows * kAttentionGroup),
        lane_sums(best + kAttentionRows),
        gathered{reinterpret_cast<std::byte*>(lane_sums + kAttentionRows * kTile),
                 reinterpret_cast<std::byte*>(lane_sums + kAttentionRows * kTile +
                                              kAttentionGroup * width)} {}
};

constexpr int kAttentionSums = kRegisters - 8;
constexpr int kAttentionTileRows = kAttentionSums / 4;  // 6, or 2 with 16 registers

/// scores [R, V vectors] = q k for the group's tokens from vector `first_vector` on.
template <typename C, int R, int V>
void score(const float* q, int64_t head_dim, const AttentionGroup& group, int first_vector,
           float* scores) {
  constexpr size_t kVectorBytes = kLanes * C::kStep * C::kElement;
  const std::byte* from[V];
  const std::byte* next[V];
  for (int v = 0; v < V; ++v) {
    const int tile = (first_vector + v) / kTileVectors;
    const size_t offset = ((first_vector + v) % kTileVectors) * kVectorBytes;
    from[v] = group.keys[tile] + offset;
    next[v] = group.next_keys[tile] + offset;
  }
  Vf acc[R * V];
  for (int i = 0; i < R * V; ++i) acc[i] = splat(0.f);
  for (int64_t d = 0; d < head_dim; d += C::kStep) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const size_t offset = d / C::kStep * (kTileVectors * kVectorBytes);
      __builtin_prefetch(next[v] + offset, 0, 2);
      Vf k[C::kStep];
      C::keys(from[v] + offset, k);
#pragma GCC unroll 2
      for (int s = 0; s < C::kStep; ++s)
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
          acc[r * V + v] = fma(splat(q[(d + s) * R + r]), k[s], acc[r * V + v]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v)
      store(scores + r * kAttentionGroup + (first_vector + v) * kLanes, acc[r * V + v]);
}

/// sums [R, V vectors at column] += weights * values over the group's tokens.
template <typename C, int R, int V>
void weigh(const AttentionGroup& group, int64_t width, const float* weights, int64_t column,
           float* sums) {
  Vf acc[R * V];
  for (int i = 0; i < R * V; ++i) acc[i] = load(sums + i / V * width + column + i % V * kLanes);
  for (int tile = 0; tile < kGroupTiles; ++tile)
    for (int t = group.first[tile]; t < group.last[tile]; ++t) {
      const std::byte* row = group.values[tile] + (t * width + column) * C::kElement;
      const std::byte* next = group.next_values[tile] + (t * width + column) * C::kElement;
      for (size_t at = 0; at < V * kLanes * C::kElement; at += 64)
        __builtin_prefetch(next + at, 0, 2);
      const float* weight = weights + tile * kTile + t;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        const Vf value = C::values(row + v * (kLanes * C::kElement));
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r)
          acc[r * V + v] = fma(splat(weight[r * kAttentionGroup]), value, acc[r * V + v]);
      }
    }
  for (int i = 0; i < R * V; ++i) store(sums + i / V * width + column + i % V * kLanes, acc[i]);
}

/// The first position that a row at `position` sees.
PLIMSOLL_INLINE int64_t first_seen(const AttentionTile& t, int64_t position) {
  if (t.window == 0) return 0;
  if (t.window_kind == model::WindowKind::chunk) return position / t.window * t.window;
  return max(position - t.window + 1, 0);
}

/// The position after the last one that a row at `position` sees.
PLIMSOLL_INLINE int64_t seen_end(const AttentionTile& t, int64_t position) {
  return t.seen_end == nullptr ? position + 1 : t.seen_end[position - t.first_position];
}

/// ALiBi's bias of the scores of the keys from `key` on, for a query at `position`.
PLIMSOLL_INLINE Vf alibi(const AttentionTile& t, float slope, int64_t position, int64_t key) {
  const bool rounds = t.alibi.of == model::Alibi::Of::position_bf16;
  const auto first = static_cast<int32_t>(rounds ? key : key - position);
  Vf steps = __builtin_convertvector(iota() + first, Vf);
  if (t.alibi.of == model::Alibi::Of::root) {  // what lies behind the query is masked
    steps = splat(0.f) - square_root(max(splat(0.f) - steps, splat(0.f)));
  }
  Vf bias = splat(slope) * steps;
  if (rounds) {
    const Vh rounded = to_bf16(bias);
    bias = load_bf16(&rounded);
  }
  return splat(t.alibi.factor) * bias;
}

/// Scales, caps and masks the scores of a row, turns them into weights and rescales its sums.
void soften(const AttentionTile& t, const AttentionState& state, const AttentionGroup& group,
            const ChosenTokens& chosen, int row) {
  constexpr int kVectors = static_cast<int>(kAttentionGroup) / kLanes;
  constexpr float kInfinity = __builtin_inff();
  const int64_t position = t.first_position + row / t.heads;
  const int64_t oldest = first_seen(t, position);
  const int64_t newest = seen_end(t, position);
  float* scores = state.scores + row * kAttentionGroup;
  Vf s[kVectors];
  Vf top = splat(-kInfinity);
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    s[v] = load(scores + v * kLanes);
    if (t.soft_cap > 0) s[v] = splat(t.soft_cap) * tanh(s[v] / splat(t.soft_cap));
    const int tile = v / kTileVectors;
    if (t.slopes != nullptr) {
      s[v] = s[v] + alibi(t, t.slopes[row % t.heads], position, group.start + v * kLanes);
    }
    const Vi lane = iota() + v % kTileVectors * kLanes;
    const int64_t end = min(newest - group.start - tile * kTile, kTile);
    const int64_t begin = max(oldest - group.start - tile * kTile, int64_t{0});
    Vi seen = (lane < splat_int(static_cast<int32_t>(max(end, int64_t{0})))) &
              (lane >= splat_int(static_cast<int32_t>(min(begin, int64_t{kTile}))));
    if (t.chosen != nullptr) seen &= chosen_lanes(chosen.seen[row / t.heads], v);
    s[v] = select(seen, s[v], splat(-kInfinity));
    top = max(top, s[v]);
  }
  const float old_best = state.best[row];
  float best = largest(top);
  best = best > old_best ? best : old_best;
  const Vf base = splat(best == -kInfinity ? 0.f : best);
  Vf lanes[kTileVectors];
  float* lane_sums = state.lane_sums + row * kTile;
  const Vf decay = exp(splat(old_best) - base);
  for (int i = 0; i < kTileVectors; ++i) lanes[i] = load(lane_sums + i * kLanes) * decay;
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) {
    const Vf weight = exp(s[v] - base);
    store(scores + v * kLanes, weight);
    lanes[v % kTileVectors] = lanes[v % kTileVectors] + weight;
  }
  for (int i = 0; i < kTileVectors; ++i) store(lane_sums + i * kLanes, lanes[i]);
  state.best[row] = best;
  if (best == old_best) return;
  float* sums = state.sums + row * state.width;
  for (int64_t i = 0; i < state.width; i += kLanes) store(sums + i, load(sums + i) * decay);
}

template <typename C, int R>
void attend_rows(const AttentionTile& t, const AttentionState& state, const AttentionGroup& group,
                 const ChosenTokens& chosen, int row) {
  constexpr int kVectors = static_cast<int>(kAttentionGroup) / kLanes;
  for (int v = 0; v < kVectors; v += 4)
    score<C, R, 4>(state.q + row * key_columns(t.head_dim), key_columns(t.head_dim), group, v,
                   state.scores + row * kAttentionGroup);
  for (int r = row; r < row + R; ++r) soften(t, state, group, chosen, r);
  const float* weights = state.scores + row * kAttentionGroup;
  float* sums = state.sums + row * state.width;
  int64_t column = 0;
  for (; column + 4 * kLanes <= state.width; column += 4 * kLanes)
    weigh<C, R, 4>(group, state.width, weights, column, sums);
  for (; column < state.width; column += kLanes)
    weigh<C, R, 1>(group, state.width, weights, column, sums);
}

/// Computes rows [row, row + count) of a register tile, if any of them sees a part of the group.
template <typename C>
void attend_tile(const AttentionTile& t, const AttentionState& state, const AttentionGroup& group,
                 const ChosenTokens& chosen, int row, int count) {
  int64_t end = 0;
  uint64_t seen = 0;
  for (int64_t p = row / t.heads; p <= (row + count - 1) / t.heads; ++p) {
    end = max(end, seen_end(t, t.first_position + p));
    if (t.chosen != nullptr) seen |= chosen.seen[p];
  }
  if (group.start >= end || (t.chosen != nullptr && seen == 0)) return;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const AttentionTile&, const AttentionState&, const AttentionGroup&,
                              const ChosenTokens&, int);
    static constexpr Function kByRows[] = {attend_rows<C, I + 1>...};
    kByRows[count - 1](t, state, group, chosen, row);
  }
  (std::make_integer_sequence<int, kAttentionTileRows>{});
}

/// Scales and packs q by register tiles.
void pack_queries(const AttentionTile& t, const AttentionState& state) {
  for (int row = 0; row < state.rows; row += kAttentionTileRows) {
    const int left = state.rows - row;
    const int count = left < kAttentionTileRows ? left : kAttentionTileRows;
    float* to = state.q + row * key_columns(t.head_dim);
    for (int r = 0; r < count; ++r) {
      to[(key_columns(t.head_dim) - 1) * count + r] = 0;
      const float* from = t.q + (row + r) / t.heads * t.q_stride + (row + r) % t.heads * t.head_dim;
      for (int64_t d = 0; d < t.head_dim; ++d) to[d * count + r] = from[d] * t.scale;
    }
  }
}

void clear_sums(const AttentionState& state) {
  for (int64_t i = 0; i < state.rows * state.width; ++i) state.sums[i] = 0;
  for (int i = 0; i < state.rows * static_cast<int>(kTile); ++i) state.lane_sums[i] = 0;
  for (int i = 0; i < state.rows; ++i) state.best[i] = -__builtin_inff();
}

void end_attention(const AttentionTile& t, const AttentionState& state) {
  for (int row = 0; row < state.rows; ++row) {
    Vf lanes = load(state.lane_sums + row * kTile);
    for (int i = 1; i < kTileVectors; ++i)
      lanes = lanes + load(state.lane_sums + row * kTile + i * kLanes);
    float total = sum(lanes);
    if (t.sinks != nullptr) total += exp(splat(t.sinks[row % t.heads] - state.best[row]))[0];
    const float factor = 1.f / total;
    float* to = t.out + row / t.heads * t.out_stride + row % t.heads * t.head_dim;
    const float* from = state.sums + row * state.width;
    for (int64_t d = 0; d < t.head_dim; ++d) to[d] = from[d] * factor;
  }
}

template <typename C>
void attend(const AttentionTile& t) {
  const AttentionState state(t);
  pack_queries(t, state);
  clear_sums(state);
  ChosenTokens chosen{};
  int64_t end = 0;
  for (int p = 0; p < t.positions; ++p) end = max(end, seen_end(t, t.first_position + p));
  const int64_t begin = first_seen(t, t.first_position);
  const int64_t first = begin / kAttentionGroup * kAttentionGroup;
  AttentionGroup next = locate_group(t, state.gathered, first, begin, end);
  for (int64_t start = first; start < end; start += kAttentionGroup) {
    AttentionGroup group = next;
    if (start + kAttentionGroup < end)
      next = locate_group(t, state.gathered, start + kAttentionGroup, begin, end);
    gather_tokens<C>(t, group, state.gathered);
    for (int i = 0; i < kGroupTiles; ++i) {
      group.next_keys[i] = next.keys[i];
      group.next_values[i] = next.values[i];
    }
    if (t.chosen != nullptr) find_chosen(t, group, chosen);
    for (int row = 0; row < state.rows; row += kAttentionTileRows) {
      const int left = state.rows - row;
      attend_tile<C>(t, state, group, chosen, row,
                     left < kAttentionTileRows ? left : kAttentionTileRows);
    }
  }
  end_attention(t, state);
}

void attention(const AttentionTile& tile) {
  if (tile.dtype == DType::bf16) return attend<Bf16Cache>(tile);
  if (tile.dtype == DType::f16) return attend<F16Cache>(tile);
  if (tile.dtype == DType::f8_e4m3) return attend<E4m3Cache>(tile);
  attend<F32Cache>(tile);
}

}  // namespace
}  // namespace plimsoll::backend
