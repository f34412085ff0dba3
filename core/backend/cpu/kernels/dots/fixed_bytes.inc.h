// Products of rows of int8 (FixedRow of one plane) over vectors of outputs, by the `Dots` of the
// including file (fixed_codes.inc.h). A chunk of weights ends in two or three instructions a row:
// its integer becomes a float, is scaled, and the minimum's share is subtracted; sums start from
// the zero point's share.
#pragma once

#include "backend/cpu/kernels/dots/fixed_codes.inc.h"

namespace plimsoll::backend {
namespace {

/// Computes kVectors vectors of outputs from `vector` on, and R rows from `first` on.
template <typename Codes, int R>
void multiply_byte_vectors(const FixedTile& tile, const Codes& decoder, int first, int vector) {
  const PackedTile& weight = *tile.weight;
  const model::Packing& packing = *weight.packing;
  const int64_t together = model::rounded_together(packing.inputs) / packing.group;
  const Lanes lanes[kVectors] = {Lanes(weight, vector), Lanes(weight, vector + 1)};
  const int64_t offset = first * tile.stride;
  const auto row_at = [&](const std::byte* of_first, int r) {
    return of_first + offset + r * tile.stride;
  };
  Vf total[R][kVectors] = {}, part[R][kVectors] = {};
  for (const FixedChunk& chunk : *tile.chunks) {
    if (tile.ahead > 0) ask_ahead(tile, lanes[0].codes, chunk);
    SumsOf<Codes, 1, R> sums;
    sums.clear();
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const auto* const of_row = reinterpret_cast<const ByteSums*>(row_at(tile.sums, r));
      for (int v = 0; v < kVectors; ++v)
        sums.of[0][0][0][r][v] = splat_int(of_row[chunk.index].start);
    }
    add_chunk<Codes, 1, R>(decoder, lanes[0].codes, tile.a + offset, tile.stride, chunk, sums);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Vf scale = lanes[v].scale(weight, chunk.group);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r)
        part[r][v] = fma(to_float(sums.all(0, 0, r, v)), scale, part[r][v]);
      if (weight.minimums == nullptr) continue;
      const Vf minimum = lanes[v].minimum(chunk.group);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const auto* const of_row = reinterpret_cast<const ByteSums*>(row_at(tile.sums, r));
        part[r][v] = fma(minimum, splat(of_row[chunk.index].negated), part[r][v]);
      }
    }
    if ((chunk.index + 1) % together != 0) continue;
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const auto* const scales = reinterpret_cast<const float*>(row_at(tile.scales, r));
      for (int v = 0; v < kVectors; ++v) {
        total[r][v] = fma(part[r][v], splat(scales[chunk.index]), total[r][v]);
        part[r][v] = Vf{};
      }
    }
  }
  const int64_t c_stride = weight.strips * kStrip;
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kVectors; ++v)
      store(tile.c + (first + r) * c_stride + (vector + v) * kLanes, total[r][v]);
}

/// Computes as many rows from `first` on as the registers hold, or fewer; returns how many.
template <typename Codes, int R, int... kFewer>
int multiply_byte_rows(const FixedTile& tile, const Codes& decoder, int first) {
  if constexpr (R > Dots::kSums / kVectors) {
    return multiply_byte_rows<Codes, kFewer...>(tile, decoder, first);
  } else {
    if constexpr (sizeof...(kFewer) > 0)
      if (tile.rows - first < R) return multiply_byte_rows<Codes, kFewer...>(tile, decoder, first);
    for (int vector = 0; vector < tile.weight->strips * kOfStrip; vector += kVectors)
      multiply_byte_vectors<Codes, R>(tile, decoder, first, vector);
    return R;
  }
}

template <typename Codes>
void multiply_bytes(const FixedTile& tile) {
  const Codes decoder(*tile.weight);
  for (int first = 0; first < tile.rows;)
    first += multiply_byte_rows<Codes, 12, 8, 6, 4, 3, 2, 1>(tile, decoder, first);
}

}  // namespace
}  // namespace plimsoll::backend
