// Products of fixed-point rows (fixed.h) over vectors of outputs, by the `Dots` of the including
// file (fixed_codes.inc.h).
#pragma once

#include <utility>

#include "backend/cpu/kernels/dots/fixed_bytes.inc.h"
#include "backend/cpu/kernels/dots/fixed_codes.inc.h"

namespace plimsoll::backend {
namespace {

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
    if (tile.ahead > 0) ask_ahead(tile, lanes[0].codes, chunk);
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
  if (tile.planes == 1) return multiply_bytes<Codes>(tile);
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
