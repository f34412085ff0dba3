// How a quantized matrix is kept: codes of a few bits, each of which stands for a number, times a
// scale that a group of inputs shares. Checkpoints store codes and scales in many orders; memory
// has this one form.
//
//   w[o, n] = (number(code[o, n]) - zero[o, g]) * scale[o, g] * factor[o],   g the group of input n
//
// With ScaleType::blocks, minimum[o, g] * factor[o] is subtracted from w[o, n].
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/dtype.h"
#include "base/ggml/blocks.h"

namespace plimsoll::model {

/// The order in which a checkpoint stores codes and scales (quantization/formats).
enum class PackedFormat : uint8_t {
  awq,
  gptq,
  packed_integers,  // compressed-tensors' pack-quantized
  int8,
  fp8,
  nvfp4,
  mxfp4,
  nf4,         // bitsandbytes
  online_fp8,  // plain weights that are quantized while they are loaded
  ggml,        // blocks of a GGUF file
};

/// The number that a code stands for.
enum class Code : uint8_t {
  integer,  // itself
  e4m3,     // a float8, of 8 bits
  table,    // one of 16 numbers, of 4 bits
  none,     // there are no codes: each input has a scale of its own, which is the weight
};

/// The type that scales are kept as.
enum class ScaleType : uint8_t {
  f32,
  f16,
  bf16,
  e4m3,    // a float8
  e8m0,    // 2^(byte - 127)
  nested,  // bitsandbytes' double quantization: a byte that NestedScales turns into a scale
  blocks,  // what ggml's blocks have beside their codes: scales and minimums (base/ggml/blocks.h)
};

/// The type of scales that are plain floats.
constexpr DType dtype_of(ScaleType type) {
  return type == ScaleType::f16 ? DType::f16 : type == ScaleType::bf16 ? DType::bf16 : DType::f32;
}
/// Bytes of one scale; not of ScaleType::blocks.
constexpr int64_t scale_bytes(ScaleType type) {
  if (type == ScaleType::f32) return 4;
  return type == ScaleType::f16 || type == ScaleType::bf16 ? 2 : 1;
}

/// How the inputs of a product are rounded, where the format asks for it.
enum class InputRounding : uint8_t {
  none,
  int8_token,         // amax / 127 of each row
  int8_zeros,         // steps of (largest - least) / 255 of each row, with a zero point
  int8_static,        // by the checkpoint's input_scale
  int8_static_zeros,  // by the checkpoint's input_scale and input_zero_point
  int8_group32,       // amax / 127 of each 32 inputs of a row
  int8_group256,      // of each 256
  fp8_token,          // amax / 448 of each row
  fp8_bounded,  // amax of each row / 448, amax below a bound from the configuration (fbgemm_fp8)
  fp8_group,    // amax / 448 of each 128 inputs of a row
  fp8_static,   // by the checkpoint's input_scale
  nvfp4_group,  // e2m1 by a float8 scale of each 16 inputs, below the checkpoint's scale
  mxfp4_group,  // e2m1 by a power of two of each 32 inputs
  mxfp8_group,  // float8 by a power of two of each 32 inputs
};

/// Consecutive inputs of a row that a rounding takes together; 1: each by itself, or all of the
/// row.
constexpr int64_t rounded_together(InputRounding rounding) {
  switch (rounding) {
    case InputRounding::fp8_group:
      return 128;
    case InputRounding::nvfp4_group:
      return 16;
    case InputRounding::int8_group32:
    case InputRounding::mxfp4_group:
    case InputRounding::mxfp8_group:
      return 32;
    case InputRounding::int8_group256:
      return 256;
    default:
      return 1;
  }
}

/// Exponent of the power of two by which a group of MXFP4 (else MXFP8) is scaled. The group's
/// largest value is `fraction` * 2^`exponent` as std::frexp has them, for MXFP8 in parts of 448.
/// MXFP4's largest is rounded to the nearest e2m1 first, MXFP8's exponent is the least that holds
/// it.
constexpr int mx_exponent(bool fp4, float fraction, int exponent) {
  const int power =
      fp4 ? exponent - (fraction >= 0.875f ? 2 : 3) : exponent - (fraction == 0.5f ? 1 : 0);
  return power < -127 ? -127 : power > 127 ? 127 : power;
}

/// True when a rounding needs the largest of all inputs of a row (and the least, with zero points).
constexpr bool rounds_by_row(InputRounding rounding) {
  return rounding == InputRounding::int8_token || rounding == InputRounding::int8_zeros ||
         rounding == InputRounding::fp8_token || rounding == InputRounding::fp8_bounded;
}

/// Inputs whose codes of `bits` bits fill whole words of 32 bits.
constexpr int64_t word_inputs(int64_t bits) {
  return bits == 3 ? 32 : 32 / bits;
}

/// A range of a matrix's inputs (columns).
struct Inputs {
  int64_t first = 0, count = 0;
};

/// The checkpoint's scale for the inputs of a product.
struct InputScale {
  float scale = 0;  // nvfp4_group: its inverse; fp8_bounded: bound of amax
  float zero = 0;   // int8_static_zeros: the code of 0

  bool operator==(const InputScale&) const = default;
};

/// True when a rounding uses the checkpoint's InputScale.
constexpr bool has_input_scale(InputRounding rounding) {
  return rounding == InputRounding::int8_static || rounding == InputRounding::int8_static_zeros ||
         rounding == InputRounding::fp8_static || rounding == InputRounding::fp8_bounded ||
         rounding == InputRounding::nvfp4_group;
}

struct Packing {
  PackedFormat format = PackedFormat::awq;
  Code code = Code::integer;
  GgmlType blocks = GgmlType::f32;  // the type in the file, of PackedFormat::ggml
  int64_t bits = 4;                 // 2, 3, 4, 8; in GGUF files 5 and 6 too; of Code::none 32
  int64_t group = 0;                // inputs that share a scale; 0: all inputs of an output
  ScaleType scale = ScaleType::f32;
  bool zeros = false;      // a zero point (a byte) beside each scale, to which `zero` is added
  int64_t zero = 0;        // integers without zero points: the zero point of all
  bool factors = false;    // a float32 for each output
  bool ordered = false;    // a group number for each input (activation order)
  bool scattered = false;  // ordered, a share of the inputs: a group may have any number of them
  /// Outputs that share a scale in the checkpoint (fp8), where in memory each has its own; 0: all
  /// outputs (block_outputs). Inputs, across the ends of outputs, that share one of
  /// NestedScales::absmax (block_inputs).
  int64_t block_outputs = 1;
  int64_t block_inputs = 0;
  InputRounding inputs = InputRounding::none;
  float most_input = 0;  // for InputRounding::fp8_bounded
  /// Most inputs of its first group that lie before a rank's share of the inputs.
  int64_t lead = 0;

  bool operator==(const Packing&) const = default;
  [[nodiscard]] bool has_blocks() const { return scale == ScaleType::blocks; }
  /// The type in a GGUF file; only of PackedFormat::ggml.
  [[nodiscard]] const GgmlTypeInfo& block_type() const {
    return *find_ggml_type(static_cast<uint32_t>(blocks));
  }
  /// Bytes of a row of `columns` values in a GGUF file, whole blocks.
  [[nodiscard]] int64_t block_row_bytes(int64_t columns) const {
    return columns / block_type().values * block_type().bytes;
  }
  [[nodiscard]] bool has_minimums() const {
    return has_blocks() && find_ggml_blocks(blocks)->minimums;
  }
  /// Bytes of the scales of so many groups, whole blocks.
  [[nodiscard]] int64_t scales_bytes(int64_t count) const {
    if (!has_blocks()) return count * scale_bytes(scale);
    return count * group / block_type().values * find_ggml_blocks(blocks)->scale_bytes();
  }
  /// Inputs before `first` in the group of `first`.
  [[nodiscard]] int64_t inputs_before(int64_t first) const { return group > 0 ? first % group : 0; }
  [[nodiscard]] int64_t groups(int64_t columns) const {
    return group > 0 ? (lead + columns + group - 1) / group : 1;
  }
  /// Scales of ScaleType::nested that share one of NestedScales::absmax, and how many absmax an
  /// [outputs, inputs] matrix of the checkpoint has.
  [[nodiscard]] constexpr int64_t absmax_share() const { return block_inputs / group; }
  [[nodiscard]] int64_t absmax_count(int64_t outputs, int64_t columns) const {
    return (outputs * groups(columns) + absmax_share() - 1) / absmax_share();
  }
};

/// The second stage of double-quantized scales. Scale g of row r: numbers[byte] * absmax[(first + r
/// * stride + g) / Packing::absmax_share()] + offset.
struct NestedScales {
  static constexpr int64_t kBlock = 256;
  std::span<float> numbers;  // [256]
  std::span<float> absmax;
  float offset = 0;
  int64_t first = 0;
  int64_t stride = 1;  // scales of a stored row
};

/// Rows of a quantized part of a weight, or of some inputs of it, read from wherever they are
/// stored. Rows, columns and groups count from the first that it was opened for; the first group
/// and the last may have inputs outside. Thread-safe. Throws Error(checkpoint_unusable), naming the
/// tensor, for values that no weight has (NaN).
class PackedRows {
 public:
  virtual ~PackedRows() = default;
  /// Number of the first input that it was opened for, among all inputs.
  [[nodiscard]] virtual int64_t first_input() const { return 0; }
  /// Copies codes [count, columns], a byte each, of rows [first, first + count).
  virtual void codes(int64_t first, int64_t count, uint8_t* to) const = 0;
  /// Copies scales [count, groups], of type Packing::scale; of ScaleType::blocks [count, blocks],
  /// as split_ggml_block() gives them.
  virtual void scales(int64_t first, int64_t count, std::byte* to) const = 0;
  /// Copies zero points [count, groups]; only for packings with zero points.
  virtual void zeros(int64_t first, int64_t count, uint8_t* to) const = 0;
  /// Copies factors [count]; only for packings with factors.
  virtual void factors(int64_t first, int64_t count, float* to) const = 0;
  /// Copies the group of each input [columns]; only for ordered packings.
  virtual void input_groups(int32_t* to) const = 0;
  /// Copies the 16 numbers of Code::table.
  virtual void table(std::span<float, 16> to) const = 0;
  /// Fills in the scales' second stage; `absmax` must have absmax_count elements.
  virtual void nested(NestedScales& to) const = 0;
  /// Scale by which inputs are rounded (has_input_scale()).
  [[nodiscard]] virtual InputScale input_scale() const = 0;
};

}  // namespace plimsoll::model
