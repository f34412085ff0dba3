// Products of float8 weights with rows that are rounded to float8 too, by cuBLASLt: both row-major,
// with their scales beside them. Weights are unpacked for it, some outputs at a time, so it is for
// many rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/footprint.h"
#include "backend/cuda/packed_layout.h"

namespace plimsoll::backend::cuda {

/// Fewest rows for cuBLASLt; fewer rows always take the packed kernel.
inline constexpr int64_t kFp8Rows = 128;
/// Most bytes of codes that are unpacked at once, unless 128 outputs need more.
inline constexpr size_t kFp8WeightBytes = size_t{64} << 20;
/// Inputs of a group with one scale.
inline constexpr int64_t kFp8Group = 128;

/// Parts of the workspace of a product with one part of a weight.
struct Fp8Product {
  int64_t groups = 1;        // of inputs: 1, or columns / 128
  int64_t outputs = 0;       // unpacked at once: a multiple of 128 or all
  size_t codes = 0;          // [rows, columns] of rows
  size_t scales = 0;         // [groups, rows]
  size_t weight = 0;         // [outputs, columns] codes
  size_t weight_scales = 0;  // [groups, outputs], where there are groups
  size_t bytes = 0;

  Fp8Product(const PackedMatrix& layout, const model::Packing& packing, int64_t rows,
             size_t weight_bytes = kFp8WeightBytes);
};

/// True when cuBLASLt can multiply a part with rows of this type on such a card (Hopper: scales of
/// rows and outputs): sizes are multiples of 16, rows are rounded whole or in groups of 128.
bool multiplies_fp8(const model::Part& part, int64_t columns, DType dtype, const CardFigures& card);

/// Offset of a weight's products in a workspace, after the areas of PackedInputs and share_most(),
/// and their bytes at most.
size_t fp8_offset(int64_t rows, const model::WeightSpec& spec, DType dtype);
size_t fp8_bytes(int64_t rows, const model::WeightSpec& spec, DType dtype, const CardFigures& card);

}  // namespace plimsoll::backend::cuda
