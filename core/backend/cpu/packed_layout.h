// Storage of quantized matrices in the CPU backend: equal bytes for every instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/layout.h"
#include "backend/cpu/round_inputs.h"
#include "backend/packed_segments.h"

namespace plimsoll::backend {

/// A part [rows, columns] of a quantized weight. Its rows lie in strips of 32, of which the last is
/// filled up with zeros. A strip's codes are units of 32-bit words [units][words][32 rows]: a word
/// holds 16, 8 or 4 columns of its row, lowest bits first (2, 4 and 8 bits); with 3 bits, three
/// words hold one bit each of 32 columns. Scales, zero points and factors lie beside them, for all
/// strips: [strips][groups][32], [strips][groups][32] and [strips][32]; then the data that the part
/// has once. Of Code::blocks a strip is 32 rows of blocks, one after the other as in the file, and
/// the last strip has no more rows than the part.
struct PackedPart {
  int64_t rows = 0, columns = 0, groups = 0;
  int64_t nested_blocks = 0;
  int64_t row_bytes = 0;                                      // of Code::blocks
  size_t strip_codes = 0, strip_scales = 0, strip_zeros = 0;  // bytes of one strip
  // Offsets of the data after the codes.
  size_t scales = 0, zeros = 0, factors = 0, order = 0, table = 0, nested = 0, input = 0;
  size_t bytes = 0;

  PackedPart(const model::Part& part, int64_t columns_of_part);

  static int64_t unit_words(int64_t bits) { return bits == 3 ? 3 : 1; }
};

/// Header of the second stage of a double-quantized part, after its 256 numbers and before its
/// largest values.
struct NestedPlace {
  float offset = 0;
  int32_t first = 0, stride = 1;  // model::NestedScales
};

/// True when products with a part, of `columns` columns in each slice, are sums of integers: int8
/// weights, a scale for each output, and inputs in int8. Rows take no more memory as integers than
/// as floats from 32 columns on; sums of 65536 products fit their 32 bits.
constexpr bool multiplies_integers(const model::Packing& packing, int64_t columns) {
  const bool int8_inputs = packing.inputs == model::InputRounding::int8_token ||
                           packing.inputs == model::InputRounding::int8_static;
  return int8_inputs && packing.code == model::Code::integer && packing.bits == 8 &&
         packing.group == 0 && packing.scale == model::ScaleType::f32 && !packing.zeros &&
         !packing.factors && !packing.ordered && columns >= 32 && columns <= 65536;
}

/// How the inputs of a quantized part at `data` are rounded.
InputRule input_rule(const model::Part& part, int64_t columns, const std::byte* data);

/// The parts of one matrix of a quantized weight; a plain one is a packed matrix of its own.
Segments packed_segments(const model::WeightSpec& spec, DType dtype, int64_t matrix);

}  // namespace plimsoll::backend
