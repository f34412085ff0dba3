// What ggml's packed types have in common: a block holds a code of a few bits for each value, and
// beside them float16s and bytes that give each group of values its scale and its minimum.
//
//   value[j] = scale[g] * number(code[j]) - minimum[g],   g = j / group
//
// Layouts and formulas: ggml-common.h and ggml-quants.c of llama.cpp, `dequantize_row_*`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/ggml/types.h"

namespace plimsoll {

struct GgmlBlocks {
  GgmlType type = GgmlType::q4_0;
  int64_t values = 32;  // of a block
  int64_t bits = 4;     // of a code
  int64_t group = 32;   // values that share a scale
  int64_t halves = 1;   // float16s of a block
  int64_t bytes = 0;    // bytes of a block beside codes and float16s
  int32_t zero = 0;     // number(code) = code - zero, where there is no table
  const std::array<int8_t, 16>* table = nullptr;  // number(code) = table[code]
  bool minimums = false;                          // else each minimum is 0

  /// Bytes of a block beside its codes: float16s first, then bytes.
  [[nodiscard]] int64_t scale_bytes() const { return 2 * halves + bytes; }
};

/// The blocks of a packed type that `run` has; null for the other types.
const GgmlBlocks* find_ggml_blocks(GgmlType type);

/// Takes a block apart: codes [values], a byte each, and scales [scale_bytes()]. Either may be
/// null.
void split_ggml_block(const GgmlBlocks& blocks, const std::byte* block, uint8_t* codes,
                      std::byte* scales);

/// Lays out the scales of up to `strip` rows, [rows, blocks] as split_ggml_block() gives them: for
/// each block float16s [halves][strip], then bytes [bytes][strip]. Other rows' places stay as they
/// are.
void turn_ggml_scales(const GgmlBlocks& type, const std::byte* from, int64_t rows, int64_t blocks,
                      int64_t strip, std::byte* to);

template <typename Float>
struct GgmlScale {
  Float scale, minimum;
};

/// Scale and minimum of group `g` of a block. `From` gives its float16s and bytes, for one block or
/// for a vector of them: half(i) a Float, byte(i) an Int; and to_float(Int), of_bits(Int) (a float
/// of these bits), zero() and where(condition, Float, Float). constexpr lets kernels call it
/// (nvcc's --expt-relaxed-constexpr).
template <typename From>
[[gnu::always_inline]] constexpr auto ggml_scale(GgmlType type, const From& from, int64_t g) {
  using Float = decltype(from.half(0));
  using Scale = GgmlScale<Float>;
  const Float none = from.zero();
  const auto number = [&](auto integer) { return from.to_float(integer); };
  switch (type) {
    case GgmlType::q4_1:
    case GgmlType::q5_1:
      return Scale{from.half(0), none - from.half(1)};
    case GgmlType::q2_k: {
      const auto both = from.byte(g);
      return Scale{from.half(0) * number(both & 15), from.half(1) * number(both >> 4)};
    }
    case GgmlType::q3_k: {
      const auto low = g < 8 ? from.byte(g) & 15 : from.byte(g - 8) >> 4;
      const auto high = from.byte(8 + g % 4) >> static_cast<int>(2 * (g / 4)) & 3;
      return Scale{from.half(0) * number((low | high << 4) - 32), none};
    }
    case GgmlType::q4_k:
    case GgmlType::q5_k: {
      if (g < 4)
        return Scale{from.half(0) * number(from.byte(g) & 63),
                     from.half(1) * number(from.byte(g + 4) & 63)};
      const auto both = from.byte(g + 4);
      return Scale{from.half(0) * number((both & 15) | from.byte(g - 4) >> 6 << 4),
                   from.half(1) * number(both >> 4 | from.byte(g) >> 6 << 4)};
    }
    case GgmlType::q6_k:
      return Scale{from.half(0) * number((from.byte(g) ^ 128) - 128), none};
    case GgmlType::iq4_xs: {
      const auto low = from.byte(2 + g / 2) >> static_cast<int>(g % 2 * 4) & 15;
      const auto high = from.byte(g / 4) >> static_cast<int>(g % 4 * 2) & 3;
      return Scale{from.half(0) * number((low | high << 4) - 32), none};
    }
    case GgmlType::mxfp4: {  // 2^(byte - 128); bytes 0 and 1 give floats without an exponent
      const auto byte = from.byte(0);
      return Scale{
          from.where(byte < 2, from.of_bits((byte + 1) << 21), from.of_bits((byte - 1) << 23)),
          none};
    }
    case GgmlType::nvfp4: {  // half of an unsigned E4M3, whose NaN is 0
      const auto byte = from.byte(g);
      const auto size = byte & 127;
      const auto unit = (size & 0) + (117 << 23);  // 2^-10, of byte()'s type
      const Float small = number(size) * from.of_bits(unit);
      const Float normal = from.of_bits((size << 20) + (119 << 23));
      return Scale{from.where(size < 8, small, from.where(byte == 127, none, normal)), none};
    }
    default:
      return Scale{from.half(0), none};
  }
}

}  // namespace plimsoll
