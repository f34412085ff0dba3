// Products of bf16 rows with bf16 weights by AMX. A tile instruction sums 32 columns in two chains
// of multiply-adds, even and odd ones, and adds both to what was there; few rows, and columns that
// fill no tile, are multiplied with vectors in that very order, so that rows stay independent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/layout.h"

namespace plimsoll::backend {

/// Most rows of one product.
inline constexpr int kBf16Rows = 32;
/// Columns of a tile.
inline constexpr int64_t kBf16Block = 32;
/// Columns from which rows as bf16 take no more memory than as floats.
inline constexpr int64_t kLeastBf16Columns = 64;

/// Elements from row to row of bf16 rows [rows][bf16_stride(columns)], zeros after the columns. An
/// odd number of cache lines lies between rows, lest all rows of a tile fall into one set.
constexpr int64_t bf16_stride(int64_t columns) {
  const int64_t blocks = round_up(columns, kBf16Block) / kBf16Block;
  return (blocks % 2 == 0 ? blocks + 1 : blocks) * kBf16Block;
}

/// A product of rows with one strip (layout.h): c [rows, 32].
struct Bf16Tile {
  const uint16_t* a = nullptr;
  int64_t stride = 0;
  int rows = 0;
  const std::byte* weight = nullptr;
  int64_t columns = 0;  // even
  float* c = nullptr;
  int64_t c_stride = 0;
};

using TileProduct = void (*)(const Bf16Tile& tile);

#if defined(__x86_64__)
void bf16_amx(const Bf16Tile& tile);
/// Multiplies a tile with vectors in place of AMX tiles.
void bf16_vectors(const Bf16Tile& tile);
#endif

/// The product that this processor has and that suits kernels of `isa`; null: none is faster than
/// Kernels::product.
TileProduct bf16_tiles(CpuIsa isa);

}  // namespace plimsoll::backend
