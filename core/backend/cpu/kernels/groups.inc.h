// The paged cache as attention goes through it: groups of four tiles, counted from the sequence's
// start: 64 tokens where blocks are a multiple of 16.
#pragma once

#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/vec.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

constexpr int64_t min(int64_t a, int64_t b) {
  return a < b ? a : b;
}
constexpr int64_t max(int64_t a, int64_t b) {
  return a > b ? a : b;
}

constexpr int kTileVectors = static_cast<int>(kTile) / kLanes;
constexpr int kGroupTiles = static_cast<int>(kAttentionGroup / kTile);

struct F32Cache {
  static constexpr int kStep = 1;
  static constexpr size_t kElement = 4;
  PLIMSOLL_INLINE void keys(const std::byte* from, Vf* steps) { steps[0] = load_as<Vf>(from); }
  PLIMSOLL_INLINE Vf values(const std::byte* from) { return load_as<Vf>(from); }
};
struct F16Cache {
  static constexpr int kStep = 1;
  static constexpr size_t kElement = 2;
  PLIMSOLL_INLINE void keys(const std::byte* from, Vf* steps) { steps[0] = load_f16(from); }
  PLIMSOLL_INLINE Vf values(const std::byte* from) { return load_f16(from); }
};
struct Bf16Cache {
  static constexpr int kStep = 2;
  static constexpr size_t kElement = 2;
  PLIMSOLL_INLINE void keys(const std::byte* from, Vf* steps) {
    const Vi pairs = load_as<Vi>(from);
    steps[0] = first_of_pair(pairs);
    steps[1] = second_of_pair(pairs);
  }
  PLIMSOLL_INLINE Vf values(const std::byte* from) { return load_bf16(from); }
};

struct E4m3Cache {
  static constexpr int kStep = 1;
  static constexpr size_t kElement = 1;
  PLIMSOLL_INLINE void keys(const std::byte* from, Vf* steps) { steps[0] = values(from); }
  PLIMSOLL_INLINE Vf values(const std::byte* from) { return e4m3_number(load_bytes(from)); }
};

/// One group of tokens, by its tiles, as an attention tile sees it.
struct AttentionGroup {
  int64_t start[kGroupTiles];  // position of the first token
  int tokens[kGroupTiles];     // of the tile; fewer than 16 at the end of an uneven block
  int first[kGroupTiles];      // lanes [first, last) may be seen by some row
  int last[kGroupTiles];
  const std::byte* keys[kGroupTiles];  // tiles that none may see point at one that some may
  const std::byte* values[kGroupTiles];
  const std::byte* next_keys[kGroupTiles];  // of the group to come, to be fetched meanwhile
  const std::byte* next_values[kGroupTiles];
};

/// The cache of a sequence as a row of tiles: those of its first block, of its second, and so on.
struct Tiles {
  int64_t block_size;
  int64_t per_block;

  explicit Tiles(const AttentionTile& t)
      : block_size(t.block_size), per_block(round_up(t.block_size, kTile) / kTile) {}
  [[nodiscard]] int64_t of_position(int64_t position) const {
    return position / block_size * per_block + position % block_size / kTile;
  }
  [[nodiscard]] int64_t start(int64_t tile) const {
    return tile / per_block * block_size + tile % per_block * kTile;
  }
  [[nodiscard]] int64_t tokens(int64_t tile) const {
    return min(kTile, block_size - tile % per_block * kTile);
  }
};

/// The group from `first_tile` on; positions [begin, end) are seen by some row of the tile.
AttentionGroup locate_group(const AttentionTile& t, const Tiles& tiles, int64_t first_tile,
                            int64_t begin, int64_t end) {
  AttentionGroup group;
  const int64_t width = round_up(t.head_dim, 16);
  const int64_t element = t.dtype == DType::f32 ? 4 : t.dtype == DType::f8_e4m3 ? 1 : 2;
  const int64_t first_seen = tiles.of_position(begin);
  const int64_t last_seen = tiles.of_position(end - 1);
  for (int i = 0; i < kGroupTiles; ++i) {
    const int64_t tile = first_tile + i;
    group.start[i] = tiles.start(tile);
    group.tokens[i] = static_cast<int>(tiles.tokens(tile));
    group.first[i] = static_cast<int>(max(begin - group.start[i], int64_t{0}));
    group.last[i] = static_cast<int>(min(end - group.start[i], int64_t{group.tokens[i]}));
    const int64_t there = max(first_seen, min(last_seen, tile));
    const int64_t slot = there % tiles.per_block * kTile;
    const std::byte* block =
        t.pool + static_cast<size_t>(t.blocks[there / tiles.per_block]) * t.block_stride;
    group.keys[i] =
        block + t.key_offset + static_cast<size_t>(slot * key_columns(t.head_dim) * element);
    group.values[i] = block + t.value_offset + static_cast<size_t>(slot * width * element);
  }
  return group;
}

/// Which tokens of a group each position sees by choice: a bit for each of its four tiles' lanes.
struct ChosenTokens {
  uint64_t seen[kAttentionRows];
  int64_t next[kAttentionRows];  // entry of AttentionTile::chosen
};

/// The tokens of a group that were chosen, of groups in their order.
void find_chosen(const AttentionTile& t, const AttentionGroup& group, ChosenTokens& chosen) {
  constexpr int kLast = kGroupTiles - 1;
  const int64_t end = group.start[kLast] + group.tokens[kLast];
  for (int p = 0; p < t.positions; ++p) {
    uint64_t& seen = chosen.seen[p];
    if (t.first_position + p < t.most_chosen) {
      seen = ~uint64_t{0};
      continue;
    }
    const int32_t* keys = t.chosen + p * t.chosen_stride;
    int64_t& next = chosen.next[p];
    seen = 0;
    for (int tile = 0; next < t.most_chosen && keys[next] < end; ++next) {
      while (keys[next] >= group.start[tile] + group.tokens[tile]) ++tile;
      seen |= uint64_t{1} << (tile * kTile + keys[next] - group.start[tile]);
    }
  }
}

/// Lanes of vector `v` of a group whose bits are set.
PLIMSOLL_INLINE Vi chosen_lanes(uint64_t seen, int v) {
  const auto lanes = static_cast<int32_t>(seen >> (v * kLanes) & ((uint64_t{1} << kLanes) - 1));
  return (splat_int(lanes) & (splat_int(1) << iota())) != 0;
}

}  // namespace
}  // namespace plimsoll::backend
