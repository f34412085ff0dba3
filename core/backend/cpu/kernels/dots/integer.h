// Products of int8 rows with int8 weights: integers are summed exactly, so that every instruction
// set gives the same bits for any number of rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cpu_backend.h"

namespace plimsoll::backend {

/// Most rows of one tile.
inline constexpr int kIntegerRows = 32;
/// Multiple to which a row of integers is filled up with zeros, in bytes.
inline constexpr int64_t kIntegerBlock = 64;

/// A product of rows with one strip of codes of 8 bits (packed_layout.h):
///   c[r, o] = sum over k of (codes[o, k] - zero) * a[r, k], times scales[o], times row_scales[r].
struct IntegerTile {
  const int8_t* a = nullptr;  // [rows][stride]
  int64_t stride = 0;         // columns up to a multiple of kIntegerBlock
  const float* row_scales = nullptr;
  const int32_t* row_sums = nullptr;  // of a's
  int rows = 0;
  const std::byte* codes = nullptr;  // [columns / 4][32][4]
  int64_t columns = 0;
  const float* scales = nullptr;  // [32]
  int32_t zero = 0;
  float* c = nullptr;  // [rows][32]
};

using IntegerProduct = void (*)(const IntegerTile& tile);

#if defined(__x86_64__)
void integer_vnni(const IntegerTile& tile);  // AVX-512 VNNI
void integer_amx(const IntegerTile& tile);   // tiles of int8, and VNNI behind them
#endif

/// The fastest product that this processor has and that suits kernels of `isa`; null: none is
/// faster than products of floats.
IntegerProduct integer_product(CpuIsa isa);

}  // namespace plimsoll::backend
