// Products of fixed-point rows (fixed.h) over vectors of outputs. The including file defines `Dots`
// before, with its instruction set's sums of products of bytes, codes unsigned and planes signed:
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
  static constexpr int32_t kZero = 12;
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
  static constexpr int32_t kZero = 128;
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
#pragma GCC unroll 8
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

/// Zero points of a vector of outputs: one of all, or each its own, which costs more.
struct Zeros {
  int32_t all = 0;
  bool differ = false;
  Vi each{};

  /// `of_row` times each of them, modulo 2^32.
  [[gnu::always_inline]] Vi times(int32_t of_row) const {
    if (differ) return each * splat_int(of_row);
    return splat_int(
        static_cast<int32_t>(static_cast<uint32_t>(all) * static_cast<uint32_t>(of_row)));
  }
};

/// A chunk's sum for one byte of the codes, less the zero point's share, as floats of row `r`.
template <int kBytes, int kPlanes, int R>
PLIMSOLL_INLINE Vf byte_sum(const Sums<kBytes, kPlanes, R>& sums, int byte, int r, int v,
                            const Zeros& zeros, const int32_t* row_sums) {
  const auto less = [&](Vi sum, int32_t of_row) { return sum - zeros.times(of_row); };
  const Vi upper = (sums.all(byte, 0, r, v) << 8) + sums.all(byte, 1, r, v);
  const Vf whole = to_float(less(upper, row_sums[0]));
  if constexpr (kPlanes == 2) return whole;
  const Vf last = to_float(less(sums.all(byte, kPlanes - 1, r, v), row_sums[1]));
  return fma(whole, splat(256.f), last);
}

/// The sum of a row's integers in a chunk.
template <int kPlanes>
PLIMSOLL_INLINE float row_sum(const int32_t* row_sums) {
  const auto whole = static_cast<float>(row_sums[0]);
  if constexpr (kPlanes == 2) return whole;
  return __builtin_fmaf(whole, 256.f, static_cast<float>(row_sums[1]));
}

template <int kBytes, int kPlanes, int R>
PLIMSOLL_INLINE Vf chunk_sum(const Sums<kBytes, kPlanes, R>& sums, int r, int v, const Zeros& zeros,
                             const int32_t* row_sums) {
  const Vf upper = byte_sum(sums, 0, r, v, zeros, row_sums);
  if constexpr (kBytes == 1) return upper;
  return fma(upper, splat(256.f), byte_sum(sums, kBytes - 1, r, v, Zeros{}, row_sums));
}

/// Computes kVectors vectors of outputs from `vector` on, and R rows from `first` on.
template <typename Codes, int kPlanes, int R>
void multiply_vectors(const FixedTile& tile, const Codes& decoder, int first, int vector) {
  const PackedTile& weight = *tile.weight;
  const FixedChunks& chunks = *tile.chunks;
  const Lanes lanes[kVectors] = {Lanes(weight, vector), Lanes(weight, vector + 1)};
  const std::byte* const a = tile.a + first * tile.stride;
  Vf total[R][kVectors] = {};
  for (const FixedChunk& chunk : chunks) {
    SumsOf<Codes, kPlanes, R> sums;
    sums.clear();
    add_chunk<Codes, kPlanes, R>(decoder, lanes[0].codes, a, tile.stride, chunk, sums);
    const int32_t* row_sums[R];
    float row_scales[R], less_of_minimum[R];  // rows' sums, negated and scaled
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int64_t at = (first + r) * tile.stride;
      row_sums[r] = reinterpret_cast<const int32_t*>(tile.sums + at) + 2 * chunk.index;
      row_scales[r] = reinterpret_cast<const float*>(tile.scales + at)[chunk.index];
      less_of_minimum[r] =
          weight.minimums == nullptr ? 0.f : row_sum<kPlanes>(row_sums[r]) * -row_scales[r];
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Vf scale = lanes[v].scale(weight, chunk.group);
      Zeros zeros{.all = static_cast<int32_t>(weight.packing->zero),
                  .differ = lanes[v].zeros != nullptr};
      if (zeros.differ) zeros.each = lanes[v].zero_point(weight, chunk.group);
      if constexpr (requires { Codes::kZero; }) {
        scale *= splat(decoder.factor);
        zeros = {.all = Codes::kZero};
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const Vf sum = chunk_sum(sums, r, v, zeros, row_sums[r]);
        total[r][v] = fma(sum, scale * splat(row_scales[r]), total[r][v]);
        if (weight.minimums != nullptr)
          total[r][v] = fma(lanes[v].minimum(chunk.group), splat(less_of_minimum[r]), total[r][v]);
      }
    }
  }
  const int64_t c_stride = weight.strips * kStrip;
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kVectors; ++v)
      store(tile.c + (first + r) * c_stride + (vector + v) * kLanes, total[r][v]);
}

template <typename Codes, int kPlanes, int R>
void multiply_rows(const FixedTile& tile, const Codes& decoder, int first) {
  for (int vector = 0; vector < tile.weight->strips * kOfStrip; vector += kVectors)
    multiply_vectors<Codes, kPlanes, R>(tile, decoder, first, vector);
}

template <typename Codes, int kPlanes>
void multiply_planes(const FixedTile& tile) {
  constexpr int kRows = Dots::kSums / kPlanes / Codes::kBytes / kVectors;
  const Codes decoder(*tile.weight);
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const FixedTile&, const Codes&, int);
    static constexpr Function kByRows[] = {multiply_rows<Codes, kPlanes, I + 1>...};
    for (int first = 0; first < tile.rows; first += kRows)
      kByRows[(tile.rows - first < kRows ? tile.rows - first : kRows) - 1](tile, decoder, first);
  }
  (std::make_integer_sequence<int, kRows>{});
}

template <typename Codes>
void multiply_codes(const FixedTile& tile) {
  if (tile.planes == 2) return multiply_planes<Codes, 2>(tile);
  multiply_planes<Codes, 3>(tile);
}

void multiply_tile(const FixedTile& tile) {
  const model::Packing& packing = *tile.weight->packing;
  const FixedCodes codes = fixed_codes(packing);
  if (codes == FixedCodes::halves) return multiply_codes<Halves>(tile);
  if constexpr (Dots::kBits == 8) {
    if (codes == FixedCodes::levels) return multiply_planes<Levels, 2>(tile);
    if (codes == FixedCodes::signed_bytes) return multiply_codes<SignedBytes>(tile);
    if (packing.bits == 8) return multiply_codes<Bytes>(tile);
    if (packing.bits == 6) return multiply_codes<Split<4, 2>>(tile);
    if (packing.bits == 5) return multiply_codes<Split<4, 1>>(tile);
  }
  if (packing.bits == 4) return multiply_codes<InWords<4>>(tile);
  packing.bits == 3 ? multiply_codes<Split<2, 1>>(tile) : multiply_codes<InWords<2>>(tile);
}

}  // namespace
}  // namespace plimsoll::backend
