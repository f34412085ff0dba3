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

/// Columns whose codes share a unit of 32-bit words, [words][32 rows]. Of 2, 4 and 8 bits a unit is
/// a word, lowest bits first. Codes of 3, 5 and 6 bits are cut: the columns of a unit are runs of
/// 16; a run has one word (3 bits) or two (5 and 6 bits) for its lower bits, whose byte b holds
/// columns 4 b to 4 b + 3 of the run, the first one lowest. The last word of the unit has the upper
/// bits in the same order; where a unit has two runs, the second one's are the upper half of each
/// byte.
struct CodeUnit {
  int64_t bits;
  int64_t upper;    // bits in the last word: 0, 1 or 2
  int64_t columns;  // of the unit
  int64_t words;

  constexpr explicit CodeUnit(int64_t code_bits)
      : bits(code_bits),
        upper(bits == 6                ? 2
              : bits == 3 || bits == 5 ? 1
                                       : 0),
        columns(upper > 0 ? 32 / upper : 32 / bits),
        words(columns * bits / 32) {}
  /// Columns of a word's run of lower bits.
  static constexpr int64_t kRun = 16;

  /// Word and lowest bit of the `lower()` lower bits of a column of the unit, and of its upper
  /// ones.
  struct Place {
    int64_t word, bit;
  };
  [[nodiscard]] constexpr int64_t lower() const { return bits - upper; }
  [[nodiscard, gnu::always_inline]] constexpr Place lower_place(int64_t column) const {
    if (upper == 0) return {0, column * bits};
    const int64_t in_byte = column % 4 * lower();
    return {column / kRun * (lower() / 2) + in_byte / 8, column % kRun / 4 * 8 + in_byte % 8};
  }
  [[nodiscard, gnu::always_inline]] constexpr Place upper_place(int64_t column) const {
    return {words - 1, column % kRun / 4 * 8 + column / kRun * 4 + column % 4 * upper};
  }
};

/// A part [rows, columns] of a quantized weight. Its rows lie in strips of 32, of which the last is
/// filled up with zeros. A strip's codes are CodeUnits. Scales, zero points and factors lie beside
/// them, for all strips: [strips][groups][32], [strips][groups][32] and [strips][32]; then the data
/// that the part has once. Scales of ScaleType::blocks are, for each block, its float16s [halves]
/// [32] and its bytes [bytes][32].
struct PackedPart {
  int64_t rows = 0, columns = 0, groups = 0;
  int64_t nested_blocks = 0;
  size_t strip_codes = 0, strip_scales = 0, strip_zeros = 0;  // bytes of one strip
  // Offsets of the data after the codes.
  size_t scales = 0, zeros = 0, factors = 0, order = 0, table = 0, nested = 0, input = 0;
  size_t bytes = 0;

  PackedPart(const model::Part& part, int64_t columns_of_part);
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
