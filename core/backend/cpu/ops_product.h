// Packing of rows for matrix products and sums of their slices, for the ops that make them.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "backend/cpu/layout.h"
#include "backend/cpu/ops.h"
#include "backend/cpu/round_inputs.h"
#include "backend/row_maxima.h"
#include "model/slices.h"

namespace plimsoll::backend {

/// Most sums of slices that wait beside the one that is being made.
inline constexpr int64_t kWaitingSums =
    std::bit_width(static_cast<uint64_t>(model::kMostSlices)) - 1;

/// Calls make(slice, level) for each slice in order, and join(level) where the sum at `level + 1`
/// is to be added to the one at `level`, so that the sum at 0 is a tree of pairs: (0 + 1) + (2 +
/// 3).
template <typename Make, typename Join>
void sum_slices(int64_t slices, const Make& make, const Join& join) {
  for (int64_t slice = 0; slice < slices; ++slice) {
    auto level = std::popcount(static_cast<uint64_t>(slice));
    make(slice, level);
    for (int64_t done = slice; done % 2 == 1; done /= 2) join(--level);
  }
}

/// Ops that follow a slice's sums: the bias after the first slice; the activation here only where
/// there is one slice, else after all of them.
inline Epilogue epilogue_of(const Product& product, int64_t slice, int64_t first_column) {
  const bool biased = product.bias != nullptr && slice == 0;
  return {biased ? product.bias + first_column : nullptr,
          product.slices == 1 ? product.activation : model::Activation::none};
}

template <int64_t kFloats, typename Make>
void CpuBackend::add_slices(const Product& product, const ProductJob& job, const OutputTile& tile,
                            const Make& make) const {
  std::array<std::array<float, kFloats>, kWaitingSums + 1> sums;  // by level
  const auto at = [&](int64_t level) { return sums[level].data(); };
  const int64_t stride = tile.strips * kStrip;
  const int64_t first_column = tile.first_strip * kStrip;
  const int64_t columns = std::min(stride, product.n - first_column);
  const auto make_one = [&](int64_t slice, int64_t level) {
    make(slice, at(level));
    const Epilogue epilogue = epilogue_of(product, slice, first_column);
    for (int64_t r = 0; r < tile.rows; ++r) finish(at(level) + r * stride, columns, epilogue);
  };
  sum_slices(product.slices, make_one,
             [&](int64_t level) { kernels_.add(at(level), at(level + 1), tile.rows * stride); });
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* const out = job.out + (tile.first_row + r) * job.out_stride + first_column;
    std::copy_n(at(0) + r * stride, columns, out);
    if (product.slices > 1) finish(out, columns, {nullptr, product.activation});
  }
}

template <typename RowOf>
SharedMost CpuBackend::find_most(int64_t rows, int64_t k, const RowOf& row, const Weight& weight,
                                 float* most) {
  const RowMaxima maxima(*weight.spec);
  if (weight.ranks == nullptr || maxima.count == 0) return {};
  const int64_t lead = weight.first_input() % maxima.group;
  const int64_t first = weight.first_input() / maxima.group;
  for_rows(rows, k, [&](int64_t r) {
    float* const of_row = most + r * maxima.count;
    if (maxima.range) {
      std::ranges::copy(input_range(row(r), k), of_row);
      return;
    }
    std::fill_n(of_row, maxima.count, 0.f);
    largest_inputs(row(r), k, maxima.group, lead, of_row + first);
  });
  weight.ranks->all_reduce_max({most, DType::f32, rows, maxima.count, maxima.count});
  return {most + first, maxima.count, lead};
}

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
                               const PackedRowsRule& how) {
  IntegerRows packed(to, rows, k, how.slices);
  pool_.run(rows, 8 * rows * k, [&](int64_t r, int) {
    store_integers(row(r), k, how.rule, how.most.of_row(r), packed, r);
  });
}

template <typename RowOf>
void CpuBackend::pack_fixed(int64_t rows, int64_t k, std::byte* to, const RowOf& row,
                            const PackedRowsRule& how) {
  const InputRule& rule = how.rule;
  const FixedRow layout{rule.planes, how.slices, k / how.slices,
                        rule.group,  rule.lead,  model::rounded_together(rule.rounding),
                        rule.zero};
  pool_.run(rows, 8 * rows * k, [&](int64_t r, int thread) {
    const float* from = row(r);
    if (rule && rule.planes > 1) {
      float* const rounded = rounded_rows(thread, 1, k);
      round_inputs(from, k, rule, how.most.of_row(r), rounded);
      from = rounded;
    }
    fixed_->store(from, layout, rule.bits, to + r * packed_rows_bytes(1, k));
  });
}

template <typename RowOf>
void CpuBackend::pack(int64_t rows, int64_t k, DType dtype, std::byte* to, const RowOf& row,
                      const PackedRowsRule& how) {
  const InputRule& rule = how.rule;
  if (rule.integers) return pack_integers(rows, k, to, row, how);
  if (rule.planes > 0) return pack_fixed(rows, k, to, row, how);
  if (has_tiles(dtype, k / how.slices)) return pack_bf16(rows, k, to, row);
  const int64_t tiles = product_tiles(rows);
  const size_t row_bytes = padded_columns(k) * kernels_.packed_element(dtype);
  const auto pack_tile = [&](int64_t tile, int thread) {
    const int64_t first = tile * rows / tiles;
    const int64_t count = (tile + 1) * rows / tiles - first;
    std::array<const float*, kMaxProductRows> from{};
    for (int64_t i = 0; i < count; ++i) from[i] = row(first + i);
    for (int64_t i = 0; rule && i < count; ++i) {
      float* const rounded = rounded_rows(thread, count, k) + i * k;
      const float*& inputs = from[i];
      round_inputs(inputs, k, rule, how.most.of_row(first + i), rounded);
      inputs = rounded;
    }
    kernels_.pack_rows(from.data(), static_cast<int>(count), k, dtype, to + first * row_bytes);
  };
  pool_.run(tiles, 8 * rows * k, pack_tile);
}

}  // namespace plimsoll::backend
