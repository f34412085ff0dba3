// A tile of the plain kernel: a thread block's rows of queries, tokens of the cache in shared
// memory, and which of them a row sees.
#pragma once

#include "kernels/attention/attention_plain.h"
#include "kernels/runtime/kv_cache.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels::plain {

inline constexpr int kWarps = 8;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kRows = kPlainTile / kWarps;  // of a warp
inline constexpr int kTokens = kPlainTokens;
static_assert(kTokens == 32, "a lane for each token");

template <typename T, typename KV>
struct Parameters {
  const T* q;
  int64_t q_stride;
  T* out;
  int64_t out_stride;
  KvCache<KV> cache;
  const int32_t* positions;
  const int32_t* seen_end;  // [T] behind the last position that a row sees; none: itself
  const AttentionItem* items;
  PlainTile tile;
  int group;    // query heads of a KV head
  float scale;  // of scores, with that of stored keys
  float value_scale;
  float soft_cap;
  int64_t window;
  model::WindowKind window_kind;
  const float* slopes;
  model::Alibi alibi;
  Vector sinks;
  const int32_t* chosen;  // [T, chosen_stride] the chosen keys of rows that could see more, or none
  int64_t chosen_stride;
  int most_chosen;
  float* partial;
  float* lse;
  bool is_wide;  // keys can be read 16 bytes at a time
};

/// Floats from row to row of a tile: a multiple of 4, whose quarters are odd for usual head sizes,
/// so that lanes that read 16 bytes of neighbouring rows access different banks.
__host__ __device__ constexpr int pitch_of(int head_dim) {
  return divide_up(head_dim, 4) * 4 + 4;
}

/// The tile of a block.
struct Tile {
  AttentionItem item;
  int kv_head;
  int first_head;
  int heads;
  int packed;  // rows of the tile

  template <typename T, typename KV>
  __device__ Tile(const Parameters<T, KV>& p)
      : item(p.items[blockIdx.x]), kv_head(static_cast<int>(blockIdx.y) / p.tile.parts) {
    const int before = static_cast<int>(blockIdx.y) % p.tile.parts * p.tile.heads;
    first_head = kv_head * p.group + before;
    heads = min(p.tile.heads, p.group - before);
    packed = item.rows * heads;
  }
};

/// q rows of the tile, scaled, columns past head_dim zero.
template <typename T, typename KV>
__device__ void load_queries(const Parameters<T, KV>& p, const Tile& tile, float* q) {
  const int d = p.cache.head_dim;
  const int pitch = pitch_of(d);
  for (int i = static_cast<int>(threadIdx.x); i < tile.packed * pitch; i += kThreads) {
    const int row = i / pitch;
    const int column = i % pitch;
    const int64_t t = tile.item.first_row + row / tile.heads;
    const T* from = p.q + t * p.q_stride + int64_t{tile.first_head + row % tile.heads} * d;
    q[i] = column < d ? to_float(from[column]) * p.scale : 0.f;
  }
}

/// Keys or values of the tokens [start, start + 32) as floats; zeros outside of the item's range,
/// where the cache may hold anything.
template <int N, typename T, typename KV>
__device__ void load_tokens(const Parameters<T, KV>& p, const Tile& tile, int start, int64_t offset,
                            float* to) {
  const int d = p.cache.head_dim;
  const int pitch = pitch_of(d);
  const int pieces = divide_up(d, 4) * 4 / N;  // with zeros up to a multiple of 4
  for (int i = static_cast<int>(threadIdx.x); i < kTokens * pieces; i += kThreads) {
    const int token = start + i / pieces;
    const int column = i % pieces * N;
    float* at = to + i / pieces * pitch + column;
    if (token >= tile.item.kv_begin && token < tile.item.kv_end && column < d) {
      const KV* from = p.cache.key(tile.item.sequence, tile.kv_head, token) + offset + column;
      const Pack<KV, N> piece = load_pack<KV, N>(from);
      for (int j = 0; j < N; ++j) at[j] = piece.at(j);
    } else {
      for (int j = 0; j < N; ++j) at[j] = 0.f;
    }
  }
}

template <typename T, typename KV>
__device__ void load_tokens(const Parameters<T, KV>& p, const Tile& tile, int start, int64_t offset,
                            float* to) {
  if (p.is_wide)
    load_tokens<kWide<KV>>(p, tile, start, offset, to);
  else
    load_tokens<1>(p, tile, start, offset, to);
}

/// True when one of `count` ascending numbers is `wanted`.
__device__ inline bool contains(const int32_t* numbers, int count, int wanted) {
  int first = 0;
  while (count > 1) {
    const int half = count / 2;
    if (numbers[first + half] <= wanted) first += half;
    count -= half;
  }
  return numbers[first] == wanted;
}

template <typename T, typename KV>
__device__ bool sees(const Parameters<T, KV>& p, int64_t row, int position, int token) {
  if (token >= (p.seen_end == nullptr ? position + 1 : p.seen_end[row])) return false;
  if (p.chosen != nullptr && position >= p.most_chosen)
    return contains(p.chosen + row * p.chosen_stride, p.most_chosen, token);
  if (p.window == 0) return true;
  if (p.window_kind == model::WindowKind::chunk) return token >= position / p.window * p.window;
  return token > position - p.window;
}

/// ALiBi's addition to a score.
template <typename T, typename KV>
__device__ float alibi(const Parameters<T, KV>& p, int head, int position, int token) {
  const float slope = p.slopes[head];
  if (p.alibi.of == model::Alibi::Of::distance)
    return p.alibi.factor * (slope * static_cast<float>(token - position));
  if (p.alibi.of == model::Alibi::Of::root)
    return p.alibi.factor * (slope * -sqrtf(static_cast<float>(max(position - token, 0))));
  return p.alibi.factor * to_float(from_float<__nv_bfloat16>(slope * static_cast<float>(token)));
}

}  // namespace plimsoll::kernels::plain
