// Dot products of four bytes at a time, codes unsigned and rows signed.
#pragma once

#include <immintrin.h>

#include <cstring>
#include <utility>

#include "backend/cpu/kernels/dots/integer.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {
namespace {

/// Rows whose sums stay in registers.
constexpr int kVnniRows = 12;

/// Converts sums to floats, in one order of roundings for all kernels.
void finish_integers(const IntegerTile& tile, const int32_t* sums) {
  for (int r = 0; r < tile.rows; ++r)
    for (int64_t o = 0; o < kStrip; ++o) {
      const int32_t sum = sums[r * kStrip + o] - tile.zero * tile.row_sums[r];
      tile.c[r * kStrip + o] = static_cast<float>(sum) * tile.scales[o] * tile.row_scales[r];
    }
}

/// Adds columns [k, columns) of R rows from `first` on to sums [rows][32].
template <int R>
void add_dots(const IntegerTile& tile, int first, int64_t k, int32_t* sums) {
  __m512i low[R], high[R];
  int32_t* const to = sums + first * kStrip;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    low[r] = _mm512_loadu_si512(to + r * kStrip);
    high[r] = _mm512_loadu_si512(to + r * kStrip + 16);
  }
  const int8_t* const a = tile.a + first * tile.stride;
  for (; k < tile.columns; k += 4) {
    const std::byte* const unit = tile.codes + k * kStrip;
    const __m512i left = _mm512_loadu_si512(unit);
    const __m512i right = _mm512_loadu_si512(unit + 64);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      int32_t four = 0;
      std::memcpy(&four, a + r * tile.stride + k, sizeof four);
      const __m512i spread = _mm512_set1_epi32(four);
      low[r] = _mm512_dpbusd_epi32(low[r], left, spread);
      high[r] = _mm512_dpbusd_epi32(high[r], right, spread);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm512_storeu_si512(to + r * kStrip, low[r]);
    _mm512_storeu_si512(to + r * kStrip + 16, high[r]);
  }
}

/// Adds columns [k, columns) of all rows to sums [rows][32].
void add_all_dots(const IntegerTile& tile, int64_t k, int32_t* sums) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const IntegerTile&, int, int64_t, int32_t*);
    static constexpr Function kByRows[] = {add_dots<I + 1>...};
    const int parts = (tile.rows + kVnniRows - 1) / kVnniRows;
    for (int p = 0; p < parts; ++p) {
      const int first = p * tile.rows / parts;
      kByRows[(p + 1) * tile.rows / parts - first - 1](tile, first, k, sums);
    }
  }
  (std::make_integer_sequence<int, kVnniRows>{});
}

}  // namespace
}  // namespace plimsoll::backend
