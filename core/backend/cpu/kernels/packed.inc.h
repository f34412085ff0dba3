// Products with quantized weights: codes become numbers in registers and are multiplied at once.
// Every output is a sum over groups in ascending order, a group's sum one chain of multiply-adds
// over its columns times its scale, whatever the tile: its bits depend on its row and column alone.
#pragma once

#include <utility>

#include "backend/cpu/kernels/decode.inc.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/kernels/lanes.inc.h"
#include "backend/cpu/kernels/product.inc.h"
#include "backend/cpu/packed_layout.h"

namespace plimsoll::backend {
namespace {

/// The group of column k, and the first column after it that may belong to another group.
struct GroupRun {
  int64_t group;
  int64_t end;

  GroupRun(const PackedTile& tile, int64_t k) {
    const int64_t size = tile.packing->group > 0 ? tile.packing->group : tile.columns;
    group = tile.order != nullptr ? tile.order[k] : (tile.lead + k) / size;
    end = tile.order != nullptr ? k + 1 : (group + 1) * size - tile.lead;
    while (tile.order != nullptr && end < tile.columns && tile.order[end] == group) ++end;
    if (end > tile.columns) end = tile.columns;
  }
};

/// Adds one column of R rows and V vectors of outputs.
template <typename Decoder, int R, int V>
PLIMSOLL_INLINE void packed_step(const Decoder& decoder, const typename Decoder::Words* words,
                                 const Vf* zero, int64_t j, const float* a, Vf* sums) {
  Vf numbers[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) numbers[v] = decoder.number(words[v], j, zero[v]);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const Vf scalar = splat(a[r]);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sums[r * V + v] = fma(scalar, numbers[v], sums[r * V + v]);
  }
}

/// Adds columns [k, end), which belong to one group. `ahead`: PackedTile::ahead.
template <typename Decoder, int R, int V>
PLIMSOLL_INLINE void packed_group(const Decoder& decoder, const Lanes* lanes, int64_t ahead,
                                  const Vf* zero, const float* a, int64_t k, int64_t end,
                                  Vf* sums) {
  constexpr int64_t kColumns = Decoder::kColumns;
  while (k < end) {
    if (R == 1 && ahead > 0) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
        __builtin_prefetch(word_of(lanes[v].codes, k, kColumns) + ahead, 0, 2);
    }
    typename Decoder::Words words[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) words[v] = decoder.load(lanes[v].codes, k);
    const int64_t j = k % kColumns;
    const int64_t left = end - k < kColumns - j ? end - k : kColumns - j;
    if (left == kColumns) {
#pragma GCC unroll 8
      for (int64_t i = 0; i < kColumns; ++i)
        packed_step<Decoder, R, V>(decoder, words, zero, i, a + (k + i) * R, sums);
    } else {
      for (int64_t i = 0; i < left; ++i)
        packed_step<Decoder, R, V>(decoder, words, zero, j + i, a + (k + i) * R, sums);
    }
    k += left;
  }
}

/// Subtracts a group's minimums times the sums of the rows there.
template <int R, int V>
PLIMSOLL_INLINE void subtract_minimums(const PackedTile& tile, const Lanes* lanes, int64_t group,
                                       float* c) {
  const float* const of_rows = tile.row_sums + group * R;
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const Vf minimum = lanes[v].minimum(group);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      float* const to = c + r * tile.c_stride + v * kLanes;
      store(to, fma(minimum, splat(-of_rows[r]), load(to)));
    }
  }
}

/// Computes R rows times V vectors of outputs from vector `first` on.
template <typename Decoder, int R, int V>
void packed_vectors(const PackedTile& tile, int first) {
  const Decoder decoder(tile);
  Lanes lanes[V];
  for (int v = 0; v < V; ++v) lanes[v] = Lanes(tile, first + v);
  float* const c = tile.c + first * kLanes;
  for (int i = 0; i < R * V; ++i) store(c + i / V * tile.c_stride + i % V * kLanes, Vf{});
  for (int64_t k = 0; k < tile.columns;) {
    const GroupRun run(tile, k);
    Vf zero[V], sums[R * V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) zero[v] = lanes[v].zero(tile, run.group);
#pragma GCC unroll 32
    for (int i = 0; i < R * V; ++i) sums[i] = Vf{};
    packed_group<Decoder, R, V>(decoder, lanes, tile.ahead, zero, tile.a, k, run.end, sums);
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vf scale = lanes[v].scale(tile, run.group);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        float* const to = c + r * tile.c_stride + v * kLanes;
        store(to, fma(scale, sums[r * V + v], load(to)));
      }
    }
    if (tile.minimums != nullptr) subtract_minimums<R, V>(tile, lanes, run.group, c);
    k = run.end;
  }
}

template <typename Decoder, int R>
void packed_rows(const PackedTile& tile) {
  if constexpr (R == 1 && 2 * kStripVectors <= kSums / 2) {
    // A single row's chains are too few to hide the latency of a multiply-add.
    if (tile.strips == 2) return packed_vectors<Decoder, R, 2 * kStripVectors>(tile, 0);
  }
  constexpr int V = R * kStripVectors <= kSums ? kStripVectors : 2;
  for (int v = 0; v < tile.strips * kStripVectors; v += V) packed_vectors<Decoder, R, V>(tile, v);
}

template <typename Decoder>
void packed_of(const PackedTile& tile) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const PackedTile&);
    static constexpr Function kByRows[] = {packed_rows<Decoder, I + 1>...};
    kByRows[tile.rows - 1](tile);
  }
  (std::make_integer_sequence<int, kProductRows>{});
}

void decode_scales(const ScaleCodes& from, float* to) {
  for (int lane = 0; lane < kStrip; lane += kLanes) {
    const Vf most = load(from.most + lane);
    for (int64_t at = lane; at < from.groups * kStrip; at += kStrip)
      store(to + at, gather(from.numbers, load_bytes(from.codes + at)) * most + splat(from.offset));
  }
}

/// The blocks of a vector of outputs, for ggml_scale().
struct LanesOfBlocks {
  Vf halves[2];
  const std::byte* bytes;  // [bytes][32]

  /// `block` is a strip's, whose float16s [halves][32] lie before its bytes.
  LanesOfBlocks(const std::byte* block, int64_t count, int64_t lane)
      : bytes(block + 2 * count * kStrip + lane) {
    for (int64_t i = 0; i < 2; ++i)
      halves[i] = i < count ? load_f16(block + 2 * (i * kStrip + lane)) : Vf{};
  }
  [[gnu::always_inline]] Vf half(int64_t i) const { return halves[i]; }
  [[gnu::always_inline]] Vi byte(int64_t i) const { return load_bytes(bytes + i * kStrip); }
  [[gnu::always_inline]] static Vf to_float(Vi v) { return backend::to_float(v); }
  [[gnu::always_inline]] static Vf of_bits(Vi v) { return from_bits(v); }
  [[gnu::always_inline]] static Vf zero() { return Vf{}; }
  [[gnu::always_inline]] static Vf where(Vi when, Vf yes, Vf no) { return select(when, yes, no); }
};

void decode_block_scales(const BlockScales& strip) {
  const GgmlBlocks& type = *find_ggml_blocks(strip.type);
  const int64_t groups = type.values / type.group;
  for (int64_t block = 0; block < strip.blocks; ++block)
    for (int64_t lane = 0; lane < kStrip; lane += kLanes) {
      const LanesOfBlocks lanes(strip.from + block * type.scale_bytes() * kStrip, type.halves,
                                lane);
      const Vf factor = strip.factors == nullptr ? splat(1) : load(strip.factors + lane);
      for (int64_t g = 0; g < groups; ++g) {
        const auto [scale, minimum] = ggml_scale(strip.type, lanes, g);
        const int64_t at = (block * groups + g) * kStrip + lane;
        store(strip.scales + at, scale * factor);
        if (strip.minimums != nullptr) store(strip.minimums + at, minimum * factor);
      }
    }
}

/// Calls f with the type of the tile's decoder.
template <typename F>
void with_decoder(const PackedTile& tile, const F& f) {
  switch (tile.packing->code) {
    case model::Code::e4m3:
      return f.template operator()<E4m3Decoder>();
    case model::Code::table:
      return f.template operator()<TableDecoder>();
    case model::Code::none:  // multiplied as floats
      return;
    case model::Code::integer:
      break;
  }
  switch (tile.packing->bits) {
    case 2:
      return f.template operator()<TwoBitsDecoder>();
    case 3:
      return f.template operator()<SplitDecoder<2, 1>>();
    case 5:
      return f.template operator()<SplitDecoder<4, 1>>();
    case 6:
      return f.template operator()<SplitDecoder<4, 2>>();
    case 4:
      return tile.zeros == nullptr ? f.template operator()<TableDecoder>()
                                   : f.template operator()<FourBitsDecoder>();
    default:
      return f.template operator()<BytesDecoder>();
  }
}

void packed(const PackedTile& tile) {
  if (tile.unpacked) return packed_of<FloatsDecoder>(tile);
  with_decoder(tile, [&]<typename Decoder> { packed_of<Decoder>(tile); });
}

void unpack_codes(const PackedTile& tile, float* to) {
  with_decoder(tile, [&]<typename Decoder> {
    const Decoder decoder(tile);
    for (int vector = 0; vector < kStripVectors; ++vector) {
      const Lanes lanes(tile, vector);
      for (int64_t k = 0; k < tile.columns;) {
        const GroupRun run(tile, k);
        const Vf zero = lanes.zero(tile, run.group);
        for (; k < run.end; ++k) {
          const auto words = decoder.load(lanes.codes, k);
          const Vf number = decoder.number(words, k % Decoder::kColumns, zero);
          store(to + k * kStrip + vector * kLanes, number);
        }
      }
    }
  });
}

}  // namespace
}  // namespace plimsoll::backend
