// Codes of quantized weights over vectors of outputs, and sums of their products with the bytes of
// rows (fixed.h). The including file defines `Dots` before, with its instruction set's sums of
// products of bytes, codes unsigned and rows' bytes signed:
//   kSums                   sums that stay in registers
//   kApart                  chains in which a single row's sums are made, to hide latencies
//   kBits                   bits of the largest codes
//   add(sum, four, spread)  sum with the products of each lane's four bytes
//   lookup(table, index)    bytes of the table's 16, which each 16 bytes repeat
//   together(code, unit)    inputs, a multiple of `unit`, whose sums fit where codes are at most
//                           `code`; 0: a whole chunk's sums fit, for each output
//   widened(sum)            the sum for each output
#pragma once

#include <cmath>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/decode.inc.h"
#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/kernels/lanes.inc.h"
#include "backend/cpu/layout.h"
#include "backend/cpu/packed_layout.h"

namespace plimsoll::backend {
namespace {

constexpr int kVectors = 2;  // vectors of outputs at a time
constexpr int kOfStrip = static_cast<int>(kStrip) / kLanes;

// Readers of codes: words() loads kColumns columns from column `k` on to registers, four() is the
// i-th four of them as unsigned bytes up to kLargest, for one vector of outputs. Readers whose
// codes stand for other numbers define `kZero` and the factor of their scales. With kBytes bytes a
// code, four() is called for the upper bytes, then for the lower ones, and kZero is the zero of the
// upper ones.

/// Reads codes of kBits in one word.
template <int kBits>
struct InWords {
  static constexpr int kBytes = 1;
  static constexpr int kColumns = 32 / kBits;
  static constexpr int kLargest = (1 << kBits) - 1;
  struct Words {
    Vi of[kVectors];
  };
  explicit InWords(const PackedTile&) {}
  [[gnu::always_inline]] Words words(const std::byte* codes, int64_t k) const {
    const std::byte* const unit = codes + k / kColumns * 4 * kStrip;
    Words words;
    for (int v = 0; v < kVectors; ++v) words.of[v] = load_as<Vi>(unit + v * sizeof(Vi));
    return words;
  }
  [[gnu::always_inline]] Vi four(const Words& words, int i, int v, int = 0) const {
    return (words.of[v] >> (i * kBits)) & splat_int(kLargest * 0x01010101);
  }
};

/// A table of 16 bytes, byte(i) the i-th, repeated in each 16 bytes of a vector.
template <typename F>
PLIMSOLL_INLINE Vi sixteen(const F& byte) {
  uint8_t bytes[sizeof(Vi)];
  for (size_t i = 0; i < sizeof(Vi); ++i) bytes[i] = static_cast<uint8_t>(byte(i % 16));
  return load_as<Vi>(bytes);
}

/// Reads e2m1, doubled and plus 12: the integers 0 to 24.
struct Halves : InWords<4> {
  static constexpr int32_t kZero = kHalvesZero;
  static constexpr int kLargest = 24;
  float factor;  // ggml's tables are doubled
  Vi numbers;
  explicit Halves(const PackedTile& tile)
      : InWords(tile),
        factor(tile.packing->scale == model::ScaleType::blocks ? 1.f : 0.5f),
        numbers(
            sixteen([&](size_t i) { return static_cast<int>(tile.table[i] / factor) + kZero; })) {}
  [[gnu::always_inline]] Vi four(const Words& words, int i, int v, int = 0) const {
    return Dots::lookup(numbers, InWords::four(words, i, v));
  }
};

/// Reads any 16 numbers as the nearest of 2^15 - 1 steps to each side of 0, plus 2^15.
struct Levels : InWords<4> {
  static constexpr int kBytes = 2;
  static constexpr int32_t kZero = 128;
  static constexpr int kLargest = 255;
  float factor = 0;
  Vi numbers[2];
  explicit Levels(const PackedTile& tile) : InWords(tile) {
    for (int i = 0; i < 16; ++i) factor = std::fmax(factor, std::fabs(tile.table[i]));
    factor = factor > 0 ? factor / 32767 : 1;
    int levels[16];
    for (int i = 0; i < 16; ++i)
      levels[i] = static_cast<int>(std::lrint(tile.table[i] / factor)) + 256 * kZero;
    numbers[0] = sixteen([&](size_t i) { return levels[i] >> 8; });
    numbers[1] = sixteen([&](size_t i) { return levels[i] & 255; });
  }
  [[gnu::always_inline]] Vi four(const Words& words, int i, int v, int byte) const {
    return Dots::lookup(numbers[byte], InWords::four(words, i, v));
  }
};

/// Reads integers of a table from -128 to 127, plus 128.
struct SignedBytes : InWords<4> {
  static constexpr int32_t kZero = kBytesZero;
  static constexpr int kLargest = 255;
  static constexpr float factor = 1;
  Vi numbers;
  explicit SignedBytes(const PackedTile& tile)
      : InWords(tile),
        numbers(sixteen([&](size_t i) { return static_cast<int>(tile.table[i]) + kZero; })) {}
  [[gnu::always_inline]] Vi four(const Words& words, int i, int v, int = 0) const {
    return Dots::lookup(numbers, InWords::four(words, i, v));
  }
};

struct Bytes {
  static constexpr int kBytes = 1;
  static constexpr int kColumns = 8;
  static constexpr int kLargest = 255;
  struct Words {
    Vi of[2][kVectors];
  };
  explicit Bytes(const PackedTile&) {}
  [[gnu::always_inline]] Words words(const std::byte* codes, int64_t k) const {
    const std::byte* const unit = codes + k / kColumns * 2 * 4 * kStrip;
    Words words;
    for (int w = 0; w < 2; ++w)
      for (int v = 0; v < kVectors; ++v)
        words.of[w][v] = load_as<Vi>(unit + w * 4 * kStrip + v * sizeof(Vi));
    return words;
  }
  [[gnu::always_inline]] Vi four(const Words& words, int i, int v, int) const {
    return words.of[i][v];
  }
};

/// Reads codes whose upper bits lie in a word of their own (CodeUnit).
template <int kLower, int kUpper>
struct Split {
  static constexpr CodeUnit kUnit{kLower + kUpper};
  static constexpr int kBytes = 1;
  static constexpr int kColumns = CodeUnit::kRun;
  static constexpr int kLargest = (1 << (kLower + kUpper)) - 1;
  struct Words {
    Vi lower[kLower / 2][kVectors], upper[kVectors];
  };
  explicit Split(const PackedTile&) {}
  [[gnu::always_inline]] Words words(const std::byte* codes, int64_t k) const {
    const std::byte* const unit = codes + k / kUnit.columns * kUnit.words * 4 * kStrip;
    const int64_t run = k % kUnit.columns / kColumns;
    Words words;
    for (int v = 0; v < kVectors; ++v) {
      const std::byte* const own = unit + v * sizeof(Vi);
      for (int w = 0; w < kLower / 2; ++w)
        words.lower[w][v] = load_as<Vi>(own + (run * (kLower / 2) + w) * 4 * kStrip);
      words.upper[v] = load_as<Vi>(own + (kUnit.words - 1) * 4 * kStrip) >>
                       splat_int(static_cast<int32_t>(4 * run));
    }
    return words;
  }
  [[gnu::always_inline]] Vi four(const Words& words, int i, int v, int) const {
    const int bit = i * kLower;
    const Vi lower =
        (words.lower[bit / 8][v] >> (bit % 8)) & splat_int(((1 << kLower) - 1) * 0x01010101);
    const int up = kLower - i * kUpper;
    const Vi placed = up > 0 ? words.upper[v] << up : words.upper[v] >> -up;
    return masked_or(placed, splat_int((((1 << kUpper) - 1) << kLower) * 0x01010101), lower);
  }
};

/// Sums of R rows: for each byte of the codes, its products with each plane.
template <int kBytes, int kPlanes, int R>
struct Sums {
  static constexpr int kApart = R == 1 ? Dots::kApart : 1;
  Vi of[kApart][kBytes][kPlanes][R][kVectors];

  /// Calls f(sum, the equally placed sum of `other`) for each.
  template <typename F>
  [[gnu::always_inline]] void each(const Sums& other, const F& f) {
    for (int a = 0; a < kApart; ++a)
      for (int b = 0; b < kBytes; ++b)
        for (int p = 0; p < kPlanes; ++p)
          for (int r = 0; r < R; ++r)
            for (int v = 0; v < kVectors; ++v) f(of[a][b][p][r][v], other.of[a][b][p][r][v]);
  }
  [[gnu::always_inline]] void clear() {
    each(*this, [](Vi& sum, const Vi&) { sum = Vi{}; });
  }
  [[gnu::always_inline]] void add(const Sums& part) {
    each(part, [](Vi& sum, const Vi& more) { sum += Dots::widened(more); });
  }
  [[gnu::always_inline]] Vi all(int byte, int plane, int r, int v) const {
    if constexpr (kApart == 1) return of[0][byte][plane][r][v];
    return of[0][byte][plane][r][v] + of[kApart - 1][byte][plane][r][v];
  }
};
template <typename Codes, int kPlanes, int R>
using SumsOf = Sums<Codes::kBytes, kPlanes, R>;

template <typename Codes, int kPlanes, int R>
PLIMSOLL_INLINE void add_unit(const Codes& decoder, const typename Codes::Words& words,
                              const std::byte* a, int64_t stride, SumsOf<Codes, kPlanes, R>& sums) {
#pragma GCC unroll 8
  for (int i = 0; i < Codes::kColumns / 4; ++i) {
    Vi bytes[Codes::kBytes][kVectors];
#pragma GCC unroll 2
    for (int b = 0; b < Codes::kBytes; ++b)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) bytes[b][v] = decoder.four(words, i, v, b);
#pragma GCC unroll 3
    for (int p = 0; p < kPlanes; ++p)
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const std::byte* const four = a + (i / 2 * kPlanes + p) * kFixedUnit + i % 2 * 4;
        const Vi spread = splat_int(load_scalar<int32_t>(four + r * stride));
#pragma GCC unroll 2
        for (int b = 0; b < Codes::kBytes; ++b) {
          Vi* const to = sums.of[i % SumsOf<Codes, kPlanes, R>::kApart][b][p][r];
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) to[v] = Dots::add(to[v], bytes[b][v], spread);
        }
      }
  }
}

/// Adds the products of `count` columns from `first` on, at most Dots::together().
template <typename Codes, int kPlanes, int R>
PLIMSOLL_INLINE void add_units(const Codes& decoder, const std::byte* codes, const std::byte* a,
                               int64_t stride, int64_t first, int64_t count,
                               SumsOf<Codes, kPlanes, R>& sums) {
  for (int64_t k = first; k < first + count; k += Codes::kColumns)
    add_unit<Codes, kPlanes, R>(decoder, decoder.words(codes, k), a + k * kPlanes, stride, sums);
}

/// Asks for the codes that lie FixedTile::ahead bytes behind those of a chunk.
PLIMSOLL_INLINE void ask_ahead(const FixedTile& tile, const std::byte* codes,
                               const FixedChunk& chunk) {
  constexpr int64_t kLine = 64;
  const int64_t bytes_of_column = kStrip / 8 * tile.weight->packing->bits;
  const std::byte* const first = codes + chunk.begin * bytes_of_column + tile.ahead;
  const int64_t count = (chunk.end - chunk.begin) * bytes_of_column;
  for (int64_t at = 0; at < count; at += kLine) __builtin_prefetch(first + at, 0, 2);
}

/// Adds the products of a chunk.
template <typename Codes, int kPlanes, int R>
PLIMSOLL_INLINE void add_chunk(const Codes& decoder, const std::byte* codes, const std::byte* a,
                               int64_t stride, const FixedChunk& chunk,
                               SumsOf<Codes, kPlanes, R>& sums) {
  constexpr int64_t kTogether = Dots::together(Codes::kLargest, Codes::kColumns);
  const auto add_some = [&](int64_t k, int64_t count, SumsOf<Codes, kPlanes, R>& to) {
    add_units<Codes, kPlanes, R>(decoder, codes, a, stride, k, count, to);
  };
  if constexpr (kTogether == 0) {
    add_some(chunk.begin, chunk.end - chunk.begin, sums);
  } else {
    for (int64_t k = chunk.begin; k < chunk.end; k += kTogether) {
      SumsOf<Codes, kPlanes, R> part;
      part.clear();
      add_some(k, chunk.end - k < kTogether ? chunk.end - k : kTogether, part);
      sums.add(part);
    }
  }
}

}  // namespace
}  // namespace plimsoll::backend
