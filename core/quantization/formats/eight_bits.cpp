// One byte a weight, as it is: int8 and fp8 (e4m3) `weight` [out, in], with `weight_scale` of the
// tensor ([] or [1]), of each output ([out, 1] or [out]), of groups ([out, in / g]), or of a grid
// of blocks, the last ones partial (ModelOpt's has axes of one between); Hugging Face calls the
// grid `weight_scale_inv`, and it multiplies all the same. Static scales of inputs are
// `input_scale`, Hugging Face's `activation_scale`. Llama 4's experts are stored the other way
// round, [in, out] and [1, out].
#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

using model::PackedFormat;

const char* scale_name(const FindTensor& find) {
  return find("weight_scale_inv") ? "weight_scale_inv" : "weight_scale";
}

class EightBitRows final : public StoredRows {
 public:
  EightBitRows(const model::Packing& packing, const StoredMatrix& matrix)
      : StoredRows(packing, matrix),
        fp8_(packing.format == PackedFormat::fp8),
        codes_(require("weight", {fp8_ ? DType::f8_e4m3 : DType::i8}, turned(rows(), columns()))),
        scales_(find_scales()) {
    if (!fp8_ && has("weight_zero_point")) expect_no_zero_points();
    read_input_scale(packing);
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] { matrix().transposed ? turn(first, count, to) : copy(first, count, to); });
    for (int64_t i = 0; i < count * inputs(); ++i) {
      // Integers are kept unsigned.
      if (!fp8_) to[i] ^= 0x80;
      if (!fp8_ || (to[i] & 0x7f) != 0x7f) continue;
      refuse(codes_.name, fmt::format("has a weight that is not a number (output {}, input {})",
                                      first + i / inputs(), first_input() + i % inputs()));
    }
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const auto index = [this](int64_t output, int64_t g) { return scale_of(output, g); };
    copy_scales(scales_, first, count, index, to);
  }

 private:
  [[nodiscard]] Shape turned(int64_t lines, int64_t width) const {
    return matrix().transposed ? Shape{width, lines} : Shape{lines, width};
  }
  void copy(int64_t first, int64_t count, uint8_t* to) const {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * inputs(), codes_.data + (first + i) * columns() + first_input(),
                  static_cast<size_t>(inputs()));
    }
  }
  void turn(int64_t first, int64_t count, uint8_t* to) const {
    for (int64_t n = 0; n < inputs(); ++n) {
      const std::byte* const line = codes_.data + (first_input() + n) * rows() + first;
      for (int64_t i = 0; i < count; ++i) to[i * inputs() + n] = static_cast<uint8_t>(line[i]);
    }
  }
  /// AMD Quark stores those of symmetric weights, all 0.
  void expect_no_zero_points() const {
    const char* const name = "weight_zero_point";
    const auto found = matrix().find(name);
    const bool column = found && found->shape.size() == 2;
    const StoredTensor zeros =
        require(name, {DType::i8}, one_or(name, column ? Shape{rows(), 1} : Shape{rows()}));
    zeros.guarded([&] {
      const auto is_zero = [](std::byte zero) { return zero == std::byte{}; };
      const std::span all(zeros.data, static_cast<size_t>(zeros.elements()));
      if (!std::ranges::all_of(all, is_zero))
        refuse(zeros.name, "has zero points, which 8-bit weights are not run with");
    });
  }
  void read_input_scale(const model::Packing& packing) {
    using enum model::InputRounding;
    if (packing.inputs == fp8_bounded) input_scale_.scale = packing.most_input;
    const bool zeros = packing.inputs == int8_static_zeros;
    if (packing.inputs != fp8_static && packing.inputs != int8_static && !zeros) return;
    const char* const name = has("activation_scale") ? "activation_scale" : "input_scale";
    const float scale = single(name);
    if (!(scale > 0))
      refuse(matrix().module + "." + name, fmt::format("is {}; expected a positive number", scale));
    input_scale_ = {scale, zeros ? input_zero() : 0};
  }
  /// The code of 0, an int8.
  [[nodiscard]] float input_zero() const {
    const char* const name = "input_zero_point";
    const StoredTensor tensor = require(name, {DType::i8}, one_or(name, {1}));
    int8_t zero = 0;
    tensor.guarded([&] { std::memcpy(&zero, tensor.data, sizeof zero); });
    return zero;
  }
  [[nodiscard]] int64_t scale_of(int64_t row, int64_t group) const {
    const int64_t block = packing().block_outputs;
    const int64_t line = block > 0 ? row / block : 0;
    return matrix().transposed ? group * lines() + line : line * groups() + group;
  }
  [[nodiscard]] StoredTensor find_scales() const {
    const char* name = scale_name(matrix().find);
    const int64_t block = packing().block_outputs;
    const auto found = matrix().find(name);
    const size_t axes = found ? found->shape.size() : 2;
    if (block == 0 && axes < 2) {
      StoredTensor one = require_any(name, {});
      return one;
    }
    if (axes == 4) return require_any(name, {lines(), 1, groups(), 1});
    const bool one_line = found && groups() == 1 && axes == 2 && found->shape[0] == lines();
    if (axes == 1 && groups() == 1) return require_any(name, {lines()});
    return require_any(name, one_line ? Shape{lines(), 1} : turned(lines(), groups()));
  }
  /// Rows of scales: blocks of outputs that share theirs.
  [[nodiscard]] int64_t lines() const {
    const int64_t block = packing().block_outputs;
    return block > 0 ? divide_up(rows(), block) : 1;
  }
  /// A scale tensor of the given shape; {}: of one value.
  [[nodiscard]] StoredTensor require_any(const char* name, const Shape& shape) const {
    return require(name, {DType::f32, DType::f16, DType::bf16, DType::f8_e8m0, DType::u8},
                   shape.empty() ? one_or(name, shape) : shape);
  }
  /// The tensor's own shape where it has one value, be it [] or [1].
  [[nodiscard]] Shape one_or(const char* name, const Shape& shape) const {
    const auto found = matrix().find(name);
    return found && found->elements() == 1 ? found->shape : shape;
  }

  bool fp8_;
  StoredTensor codes_, scales_;
};

/// Outputs that share a scale.
int64_t block_outputs(const WeightScheme& scheme) {
  switch (scheme.scales) {
    case Scales::tensor:
      return 0;
    case Scales::channel:
      return 1;
    case Scales::block:
      break;
  }
  return std::max<int64_t>(scheme.block_out, 1);
}

}  // namespace

model::Packing eight_bits_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  const bool fp8 = scheme.format == WeightFormat::fp8;
  const bool blocks = scheme.scales == Scales::block;
  model::Packing packing{.format = fp8 ? PackedFormat::fp8 : PackedFormat::int8,
                         .code = fp8 ? model::Code::e4m3 : model::Code::integer,
                         .bits = 8,
                         .group = blocks ? scheme.block_in : scheme.group,
                         .zero = fp8 ? 0 : 128,
                         .block_outputs = block_outputs(scheme)};
  if (packing.group >= matrix.columns) packing.group = 0;
  if (!blocks && packing.group > 0) packing.block_outputs = 1;
  return packing;
}

std::unique_ptr<model::PackedRows> open_eight_bits(const model::Packing& packing,
                                                   const StoredMatrix& matrix) {
  return std::make_unique<EightBitRows>(packing, matrix);
}

}  // namespace plimsoll::quantization
