// Fixed-point products by dot products of four bytes, codes unsigned and planes signed.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>
#include <utility>

#include "backend/cpu/kernels/dots/fixed.h"
#include "backend/cpu/kernels/lanes.inc.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

/// Sums of integers that stay in registers.
constexpr int kFixedSums = 24;

// ---- rows to integers ----

/// 2^power as a float; -126 <= power <= 127.
float power_of_two(int32_t power) {
  const int32_t bits = (power + 127) << 23;
  return load_scalar<float>(&bits);
}

/// The largest power p for which all numbers times 2^p are integers of so many planes, the last of
/// which are signed bytes. `most` has the bits of the largest number, none of NaN's or infinity's.
int32_t power_for(int32_t most, int planes) {
  const float limit = planes == 2 ? 32639.f : 8355711.f;
  if (most == 0) return 0;
  int32_t power = (planes == 2 ? 14 : 22) - ((most >> 23) - 127);
  if (power > 126) return 126;
  if (load_scalar<float>(&most) * power_of_two(power) > limit) --power;
  return power;
}

/// Bits of the largest of some numbers without its sign: infinity's or NaN's where there is one.
int32_t largest_bits(const float* from, int64_t count) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 lanes = count - i >= 16 ? 0xffff : 0xff;
    const __m512i bits = _mm512_maskz_loadu_epi32(lanes, from + i);
    most = _mm512_max_epi32(most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  return _mm512_reduce_max_epi32(most);
}

/// One plane of 16 integers to their two units, of which the second may be none.
template <int kPlanes>
PLIMSOLL_INLINE void store_plane(__m512i integers, int64_t count, std::byte* to) {
  const __m128i bytes = _mm512_cvtepi32_epi8(integers);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
  if (count <= kFixedUnit) return;
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to + kPlanes * kFixedUnit),
                   _mm_unpackhi_epi64(bytes, bytes));
}

PLIMSOLL_INLINE __m512i without_last_byte(__m512i integers) {
  return _mm512_srai_epi32(_mm512_add_epi32(integers, _mm512_set1_epi32(128)), 8);
}

/// A chunk's bytes, and its sums.
template <int kPlanes>
void store_chunk(const float* from, int64_t count, float factor, __m512i order, std::byte* to,
                 int32_t* sums) {
  __m512i all = _mm512_setzero_si512(), last = all;
  for (int64_t i = 0; i < count; i += 16, to += 2 * kPlanes * kFixedUnit) {
    const int64_t left = count - i;
    const __mmask16 lanes = left >= 16 ? 0xffff : 0xff;
    const __m512 numbers = _mm512_maskz_loadu_ps(lanes, from + i);
    const __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, _mm512_set1_ps(factor)));
    const __m512i integers = _mm512_permutexvar_epi32(order, rounded);
    const __m512i upper = without_last_byte(integers);
    if constexpr (kPlanes == 2) {
      all = _mm512_add_epi32(all, integers);
      store_plane<kPlanes>(upper, left, to);
    } else {
      all = _mm512_add_epi32(all, upper);
      last = _mm512_add_epi32(last, _mm512_sub_epi32(integers, _mm512_slli_epi32(upper, 8)));
      store_plane<kPlanes>(without_last_byte(upper), left, to);
      store_plane<kPlanes>(upper, left, to + kFixedUnit);
    }
    store_plane<kPlanes>(integers, left, to + (kPlanes - 1) * kFixedUnit);
  }
  sums[0] = _mm512_reduce_add_epi32(all);
  sums[1] = _mm512_reduce_add_epi32(last);
}

void store_row(const float* from, const FixedRow& row, int64_t bits, std::byte* to) {
  const __m512i order =
      bits == 4 ? _mm512_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
                : _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  auto* scales = reinterpret_cast<float*>(to + row.scales_at());
  auto* sums = reinterpret_cast<int32_t*>(to + row.sums_at());
  for (int64_t slice = 0; slice < row.slices; ++slice) {
    const FixedChunks chunks = row.chunks(slice);
    for (int64_t c = 0; c < chunks.count; ++c) {
      const int64_t begin = chunks.begin(c);
      const int64_t count = chunks.end(c) - begin;
      const int32_t most = largest_bits(from + begin, count);
      const bool finite = most < 0x7f800000;
      const int32_t power = finite ? power_for(most, row.planes) : 0;
      // What is no number makes none of all that it is summed with.
      scales[c] = finite ? power_of_two(-power) : __builtin_nanf("");
      const auto store = row.planes == 2 ? store_chunk<2> : store_chunk<3>;
      store(from + begin, count, power_of_two(power), order, to + begin * row.planes, sums + 2 * c);
    }
    from += row.columns;
    to += row.columns * row.planes;
    scales += row.room();
    sums += 2 * row.room();
  }
}

// ---- products ----

constexpr int kVectors = 2;  // of outputs in a strip

/// 8 columns of a strip as unsigned bytes: halves of four columns, vectors of outputs.
struct UnitCodes {
  __m512i bytes[2][kVectors];
};

struct Nibbles {
  static constexpr int64_t kUnitBytes = 4 * kStrip;
  explicit Nibbles(const PackedTile&) {}
  [[gnu::always_inline]] UnitCodes load(const std::byte* unit) const {
    const __m512i low = _mm512_set1_epi8(15);
    UnitCodes codes;
    for (int v = 0; v < kVectors; ++v) {
      const __m512i words = _mm512_loadu_si512(unit + v * 64);
      codes.bytes[0][v] = _mm512_and_si512(words, low);
      codes.bytes[1][v] = _mm512_and_si512(_mm512_srli_epi16(words, 4), low);
    }
    return codes;
  }
};

/// e2m1, doubled and 12 more: the integers 0 to 24.
struct Halves : Nibbles {
  static constexpr int32_t kZero = 12;
  __m512i numbers;
  explicit Halves(const PackedTile& tile) : Nibbles(tile) {
    alignas(16) int8_t bytes[16];
    for (int i = 0; i < 16; ++i) bytes[i] = static_cast<int8_t>(2 * tile.table[i] + kZero);
    numbers = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  }
  [[gnu::always_inline]] UnitCodes load(const std::byte* unit) const {
    UnitCodes codes = Nibbles::load(unit);
    for (auto& half : codes.bytes)
      for (__m512i& bytes : half) bytes = _mm512_shuffle_epi8(numbers, bytes);
    return codes;
  }
};

struct Bytes {
  static constexpr int64_t kUnitBytes = 8 * kStrip;
  explicit Bytes(const PackedTile&) {}
  [[gnu::always_inline]] UnitCodes load(const std::byte* unit) const {
    UnitCodes codes;
    for (int h = 0; h < 2; ++h)
      for (int v = 0; v < kVectors; ++v)
        codes.bytes[h][v] = _mm512_loadu_si512(unit + h * (4 * kStrip) + v * 64);
    return codes;
  }
};

/// Sums of R rows. A single row has those of each half by themselves: its chains are too few to
/// hide the latency of a product.
template <int kPlanes, int R>
struct Sums {
  static constexpr int kApart = R == 1 ? 2 : 1;
  __m512i of[kApart][kPlanes][R][kVectors];

  [[gnu::always_inline]] void clear() {
    for (auto& apart : of)
      for (auto& plane : apart)
        for (auto& row : plane)
          for (__m512i& sum : row) sum = _mm512_setzero_si512();
  }
  [[gnu::always_inline]] __m512i all(int plane, int r, int v) const {
    if constexpr (kApart == 1) return of[0][plane][r][v];
    return _mm512_add_epi32(of[0][plane][r][v], of[kApart - 1][plane][r][v]);
  }
};

template <typename Codes, int kPlanes, int R>
PLIMSOLL_INLINE void add_unit(const Codes& decoder, const std::byte* codes, const std::byte* a,
                              int64_t stride, Sums<kPlanes, R>& sums) {
  const UnitCodes unit = decoder.load(codes);
  for (int64_t line = 0; line < Codes::kUnitBytes; line += 64)
    __builtin_prefetch(codes + line + kPackedAhead, 0, 2);
#pragma GCC unroll 2
  for (int h = 0; h < 2; ++h)
#pragma GCC unroll 3
    for (int p = 0; p < kPlanes; ++p)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto four = load_scalar<int32_t>(a + r * stride + p * kFixedUnit + h * 4);
        const __m512i spread = _mm512_set1_epi32(four);
        __m512i* const to = sums.of[h % Sums<kPlanes, R>::kApart][p][r];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          to[v] = _mm512_dpbusd_epi32(to[v], unit.bytes[h][v], spread);
      }
}

/// A chunk's sum less the zero point's share, a float of row `r`.
template <int kPlanes, int R>
PLIMSOLL_INLINE Vf chunk_sum(const Sums<kPlanes, R>& sums, int r, int v, __m512i zero,
                             const int32_t* row_sums) {
  const auto less = [&](__m512i sum, int32_t of_row) {
    return _mm512_sub_epi32(sum, _mm512_mullo_epi32(zero, _mm512_set1_epi32(of_row)));
  };
  const __m512i upper =
      _mm512_add_epi32(_mm512_slli_epi32(sums.all(0, r, v), 8), sums.all(1, r, v));
  const Vf whole = _mm512_cvtepi32_ps(less(upper, row_sums[0]));
  if constexpr (kPlanes == 2) return whole;
  const Vf last = _mm512_cvtepi32_ps(less(sums.all(kPlanes - 1, r, v), row_sums[1]));
  return fma(whole, splat(256.f), last);
}

/// One strip and R rows from `first` on.
template <typename Codes, int kPlanes, int R>
void multiply_rows(const FixedTile& tile, int first) {
  const PackedTile& weight = *tile.weight;
  const FixedChunks& chunks = *tile.chunks;
  const Codes decoder(weight);
  const Lanes lanes[kVectors] = {Lanes(weight, 0), Lanes(weight, 1)};
  const std::byte* const a = tile.a + first * tile.stride;
  Vf total[R][kVectors] = {};
  for (int64_t c = 0; c < chunks.count; ++c) {
    Sums<kPlanes, R> sums;
    sums.clear();
    const int64_t end = chunks.end(c);
    for (int64_t k = chunks.begin(c); k < end; k += kFixedUnit)
      add_unit<Codes, kPlanes, R>(decoder, weight.codes + k / kFixedUnit * Codes::kUnitBytes,
                                  a + k * kPlanes, tile.stride, sums);
    const int64_t group = chunks.group_of(c);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      Vf scale = lanes[v].scale(weight, group);
      __m512i zero = _mm512_cvtps_epi32(lanes[v].zero(weight, group));
      if constexpr (requires { Codes::kZero; }) {
        scale *= splat(0.5f);
        zero = _mm512_set1_epi32(Codes::kZero);
      }
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const int64_t at = (first + r) * tile.stride;
        const auto* row_sums = reinterpret_cast<const int32_t*>(tile.sums + at) + 2 * c;
        const float row_scale = reinterpret_cast<const float*>(tile.scales + at)[c];
        const Vf sum = chunk_sum<kPlanes, R>(sums, r, v, zero, row_sums);
        total[r][v] = fma(sum, scale * splat(row_scale), total[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kVectors; ++v)
      store(tile.c + (first + r) * kStrip + v * kLanes, total[r][v]);
}

template <typename Codes, int kPlanes>
void multiply_planes(const FixedTile& tile) {
  constexpr int kRows = kFixedSums / kPlanes / kVectors;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const FixedTile&, int);
    static constexpr Function kByRows[] = {multiply_rows<Codes, kPlanes, I + 1>...};
    for (int first = 0; first < tile.rows; first += kRows)
      kByRows[(tile.rows - first < kRows ? tile.rows - first : kRows) - 1](tile, first);
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
  if (packing.code == model::Code::table) return multiply_codes<Halves>(tile);
  if (packing.bits == 4) return multiply_codes<Nibbles>(tile);
  multiply_codes<Bytes>(tile);
}

}  // namespace

constinit const FixedKernels kFixedVnni = {store_row, multiply_tile};

}  // namespace plimsoll::backend
#endif
