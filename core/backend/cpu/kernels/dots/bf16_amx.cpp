#if defined(__x86_64__)
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/dots/amx.inc.h"
#include "backend/cpu/kernels/dots/bf16_tiles.h"

namespace plimsoll::backend {
namespace {

/// Rows from which tiles are faster than vectors.
constexpr int kTileRows = 5;
/// Rows whose sums stay in registers.
constexpr int kVectorRows = 5;
constexpr int64_t kPairBytes = 4 * kStrip;

/// Sets vectors to take numbers below the normal ones for zeros, while the object lives, as tiles
/// do.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned before_;
};

__m512 even(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
__m512 odd(__m512i pairs) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

/// A block of at most 32 columns from k on: c [R][32] += its two chains.
template <int R>
[[gnu::always_inline]] inline void add_block(const Bf16Tile& tile, int first, int64_t k,
                                             int64_t end) {
  __m512 sums[R][2][2];  // row, half of the strip, even or odd columns
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
    for (int h = 0; h < 2; ++h) sums[r][h][0] = sums[r][h][1] = _mm512_setzero_ps();
  for (; k < end; k += 2) {
    const std::byte* const unit = tile.weight + k / 2 * kPairBytes;
    const __m512i halves[2] = {_mm512_loadu_si512(unit), _mm512_loadu_si512(unit + 64)};
    _mm_prefetch(unit + 4096, _MM_HINT_T1);
    _mm_prefetch(unit + 4096 + 64, _MM_HINT_T1);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      int32_t pair = 0;
      std::memcpy(&pair, tile.a + (first + r) * tile.stride + k, sizeof pair);
      const __m512i spread = _mm512_set1_epi32(pair);
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h) {
        sums[r][h][0] = _mm512_fmadd_ps(even(spread), even(halves[h]), sums[r][h][0]);
        sums[r][h][1] = _mm512_fmadd_ps(odd(spread), odd(halves[h]), sums[r][h][1]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      float* const to = tile.c + (first + r) * tile.c_stride + 16 * h;
      const __m512 both = _mm512_add_ps(sums[r][h][0], sums[r][h][1]);
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), both));
    }
}

template <int R>
void add_blocks(const Bf16Tile& tile, int first, int64_t k) {
  for (; k < tile.columns; k += kBf16Block)
    add_block<R>(tile, first, k, k + kBf16Block < tile.columns ? k + kBf16Block : tile.columns);
}

/// Adds columns [k, columns) to c.
void add_columns(const Bf16Tile& tile, int64_t k) {
  const FlushDenormals flush;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    using Function = void (*)(const Bf16Tile&, int, int64_t);
    static constexpr Function kByRows[] = {add_blocks<I + 1>...};
    const int parts = (tile.rows + kVectorRows - 1) / kVectorRows;
    for (int p = 0; p < parts; ++p) {
      const int first = p * tile.rows / parts;
      kByRows[(p + 1) * tile.rows / parts - first - 1](tile, first, k);
    }
  }
  (std::make_integer_sequence<int, kVectorRows>{});
}

void multiply_tiles(const Bf16Tile& tile, int64_t columns) {
  const TileConfig config = config_for(tile.rows);
  const int64_t stride = tile.stride * int64_t{sizeof(uint16_t)};
  _tile_loadconfig(&config);
  zero_sums();
  for (int64_t k = 0; k < columns; k += kBf16Block) {
    const std::byte* const weights = tile.weight + k / 2 * kPairBytes;
    _tile_loadd(6, weights, kPairBytes);
    _tile_loadd(7, weights + 64, kPairBytes);
    _tile_loadd(4, tile.a + k, stride);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (tile.rows <= 16) continue;
    _tile_loadd(5, tile.a + 16 * tile.stride + k, stride);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  store_sums(tile.rows, tile.c, tile.c_stride * int64_t{sizeof(float)});
  _tile_release();
}

void zero(const Bf16Tile& tile) {
  for (int r = 0; r < tile.rows; ++r)
    std::memset(tile.c + r * tile.c_stride, 0, kStrip * sizeof(float));
}

}  // namespace

void bf16_vectors(const Bf16Tile& tile) {
  zero(tile);
  add_columns(tile, 0);
}

void bf16_amx(const Bf16Tile& tile) {
  const int64_t whole = tile.columns / kBf16Block * kBf16Block;
  if (tile.rows < kTileRows || whole == 0) return bf16_vectors(tile);
  multiply_tiles(tile, whole);
  if (whole < tile.columns) add_columns(tile, whole);
}

}  // namespace plimsoll::backend
#endif
