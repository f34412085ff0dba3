// Packing of rows for matrix products, for the ops that make them.
#pragma once

#include <algorithm>
#include <array>

#include "backend/cpu/layout.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/round_inputs.h"

namespace plimsoll::backend {

template <typename RowOf>
void CpuBackend::pack_bf16(int64_t rows, int64_t k, std::byte* to, const RowOf& row) {
  const int64_t stride = bf16_stride(k);
  pool_.run(rows, 8 * rows * k, [&](int64_t r, int) {
    auto* const packed = reinterpret_cast<uint16_t*>(to) + r * stride;
    kernels_.narrow(row(r), packed, DType::bf16, k);
    std::fill(packed + k, packed + stride, uint16_t{0});
  });
}

template <typename RowOf>
void CpuBackend::pack_integers(int64_t rows, int64_t k, std::byte* to, const RowOf& row,
                               const InputRule& rule) {
  IntegerRows packed(to, rows, k);
  pool_.run(rows, 8 * rows * k,
            [&](int64_t r, int) { store_integers(row(r), k, rule, packed, r); });
}

template <typename RowOf>
void CpuBackend::pack(int64_t rows, int64_t k, DType dtype, std::byte* to, const RowOf& row,
                      const InputRule& rule, int64_t slices) {
  if (rule.integers) return pack_integers(rows, k, to, row, rule);
  if (has_tiles(dtype, k / slices)) return pack_bf16(rows, k, to, row);
  const int64_t tiles = product_tiles(rows);
  const size_t row_bytes = static_cast<size_t>(padded_columns(k)) * kernels_.packed_element(dtype);
  for (auto& rounded : rounded_) {
    if (rule) rounded.resize(std::max(rounded.size(), static_cast<size_t>(kMaxProductRows * k)));
  }
  const auto pack_tile = [&](int64_t tile, int thread) {
    const int64_t first = tile * rows / tiles;
    const int64_t count = (tile + 1) * rows / tiles - first;
    std::array<const float*, kMaxProductRows> from{};
    for (int64_t i = 0; i < count; ++i) from[static_cast<size_t>(i)] = row(first + i);
    for (int64_t i = 0; rule && i < count; ++i) {
      float* const rounded = rounded_[static_cast<size_t>(thread)].data() + i * k;
      round_inputs(from[static_cast<size_t>(i)], k, rule, rounded);
      from[static_cast<size_t>(i)] = rounded;
    }
    kernels_.pack_rows(from.data(), static_cast<int>(count), k, dtype,
                       to + static_cast<size_t>(first) * row_bytes);
  };
  pool_.run(tiles, 8 * rows * k, pack_tile);
}

}  // namespace plimsoll::backend
