// Groups of the paged cache for attention: four tiles, 64 tokens, counted from the sequence's start
// whatever the size of a block, so that no sum's order depends on it.
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

/// One group of tokens, by its tiles, as an attention tile reads it.
struct AttentionGroup {
  int64_t start;           // position of the first token
  int first[kGroupTiles];  // lanes [first, last) may be seen by some row
  int last[kGroupTiles];
  const std::byte* keys[kGroupTiles];  // tiles that none may see point at one that some may
  const std::byte* values[kGroupTiles];
  const std::byte* next_keys[kGroupTiles];  // of the group to come, to be fetched meanwhile
  const std::byte* next_values[kGroupTiles];
};

/// Room for the tiles of a group whose tokens lie in blocks that end within a tile.
struct GatheredTiles {
  std::byte* keys;
  std::byte* values;
};

/// Offsets in bytes within a tile and a cache of one KV head.
struct TileLayout {
  int64_t element, key_row, value_row;  // bytes of a number, of a token's key, of its value
  explicit TileLayout(const AttentionTile& t)
      : element(t.dtype == DType::f32       ? 4
                : t.dtype == DType::f8_e4m3 ? 1
                                            : 2),
        key_row(key_columns(t.head_dim) * element),
        value_row(round_up(t.head_dim, 16) * element) {}
};

constexpr bool has_whole_tiles(const AttentionTile& t) {
  return t.block_size % kTile == 0;
}

/// The block that holds a position of the sequence.
PLIMSOLL_INLINE const std::byte* block_of(const AttentionTile& t, int64_t position) {
  return t.pool + t.blocks[position / t.block_size] * t.block_stride;
}

/// The group from position `start` on; positions [begin, end) are seen by some row of the tile.
/// Blocks without whole tiles have to be gathered before the group is read.
AttentionGroup locate_group(const AttentionTile& t, const GatheredTiles& gathered, int64_t start,
                            int64_t begin, int64_t end) {
  const TileLayout layout(t);
  AttentionGroup group;
  group.start = start;
  for (int i = 0; i < kGroupTiles; ++i) {
    const int64_t position = start + i * kTile;
    group.first[i] = static_cast<int>(max(begin - position, int64_t{0}));
    group.last[i] = static_cast<int>(min(end - position, kTile));
    if (!has_whole_tiles(t)) {
      group.keys[i] = gathered.keys + i * kTile * layout.key_row;
      group.values[i] = gathered.values + i * kTile * layout.value_row;
      continue;
    }
    const int64_t there = max(begin / kTile * kTile, min(position, (end - 1) / kTile * kTile));
    const int64_t slot = there % t.block_size;
    const std::byte* block = block_of(t, there);
    group.keys[i] = block + t.key_offset + slot * layout.key_row;
    group.values[i] = block + t.value_offset + slot * layout.value_row;
  }
  return group;
}

/// Copies the tokens of a group that may be seen to its tiles, unless they lie there already.
template <typename C>
void gather_tokens(const AttentionTile& t, const AttentionGroup& group,
                   const GatheredTiles& gathered) {
  if (has_whole_tiles(t)) return;
  constexpr size_t kUnit = C::kElement * C::kStep;
  const TileLayout layout(t);
  for (int i = 0; i < kGroupTiles; ++i)
    for (int64_t lane = group.first[i]; lane < group.last[i]; ++lane) {
      const int64_t token = i * kTile + lane;
      const int64_t slot = (group.start + token) % t.block_size;
      const std::byte* block = block_of(t, group.start + token);
      const std::byte* key =
          block + t.key_offset + slot / kTile * kTile * layout.key_row + slot % kTile * kUnit;
      std::byte* to = gathered.keys + i * kTile * layout.key_row + lane * kUnit;
      for (int64_t at = 0; at < kTile * layout.key_row; at += kTile * static_cast<int64_t>(kUnit))
        __builtin_memcpy(to + at, key + at, kUnit);
      if (t.value_offset == 0) continue;  // an indexer's cache has keys alone
      __builtin_memcpy(gathered.values + token * layout.value_row,
                       block + t.value_offset + slot * layout.value_row,
                       static_cast<size_t>(layout.value_row));
    }
}

/// Which tokens of a group each position sees by choice: a bit for each lane of its four tiles.
struct ChosenTokens {
  uint64_t seen[kAttentionRows];
  int64_t next[kAttentionRows];  // entry of AttentionTile::chosen
};

/// Finds the chosen tokens of a group; called for the groups in order.
void find_chosen(const AttentionTile& t, const AttentionGroup& group, ChosenTokens& chosen) {
  const int64_t end = group.start + kAttentionGroup;
  for (int p = 0; p < t.positions; ++p) {
    uint64_t& seen = chosen.seen[p];
    if (t.first_position + p < t.most_chosen) {
      seen = ~uint64_t{0};
      continue;
    }
    const int32_t* keys = t.chosen + p * t.chosen_stride;
    int64_t& next = chosen.next[p];
    seen = 0;
    for (; next < t.most_chosen && keys[next] < end; ++next)
      seen |= uint64_t{1} << (keys[next] - group.start);
  }
}

/// Lanes of vector `v` of a group whose bits are set.
PLIMSOLL_INLINE Vi chosen_lanes(uint64_t seen, int v) {
  const auto lanes = static_cast<int32_t>(seen >> (v * kLanes) & ((uint64_t{1} << kLanes) - 1));
  return (splat_int(lanes) & (splat_int(1) << iota())) != 0;
}

}  // namespace
}  // namespace plimsoll::backend
