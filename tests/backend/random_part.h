// Quantized weights of random numbers, and the formats that products are tried with.
#pragma once

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "base/float8.h"
#include "base/ggml/decode.h"
#include "base/rounding.h"
#include "model/model_spec.h"
#include "model/packing.h"

namespace plimsoll::testing {

inline constexpr std::array<float, 16> kNumbers = {0,    0.5f,  1,  1.5f,  2,  3,  4,  6,
                                                   -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/// Input scale of RandomPart.
inline constexpr model::InputScale kInputScale{0.01f, 20};

/// A part [rows, columns] of a checkpoint, alone in its tensor.
inline model::Part packed_part(const model::Packing& packing, int64_t rows, int64_t columns) {
  model::Part part{.tensor = "part.weight",
                   .stored_shape = {rows, columns},
                   .block_rows = rows,
                   .block_stride = rows};
  part.packing = packing;
  return part;
}

/// Random codes, scales and zero points of one part, and the weights that they stand for.
class RandomPart final : public model::PackedRows {
 public:
  RandomPart(const model::Packing& packing, int64_t rows, int64_t columns, uint32_t seed)
      : packing_(packing), rows_(rows), columns_(columns), groups_(packing.groups(columns)) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint8_t>(random() % n); };
    const uint32_t codes = 1u << std::min<int64_t>(packing.bits, 8);
    for (int64_t i = 0; i < rows * columns; ++i) {
      uint8_t code = below(codes);
      if (packing.code == model::Code::e4m3 && (code & 0x7f) == 0x7f) code = 0;
      codes_.push_back(code);
    }
    for (int64_t i = 0; i < rows * groups_; ++i) {
      zeros_.push_back(below(codes));
      scale_codes_.push_back(static_cast<uint8_t>(40 + below(40)));
    }
    for (int64_t i = 0; i < rows; ++i) factors_.push_back(0.5f + 0.01f * static_cast<float>(i));
    for (int64_t k = 0; k < columns; ++k)
      order_.push_back(static_cast<int32_t>(
          packing.scattered ? k * k / 7 % (groups_ - 1) : k * 5 % columns * groups_ / columns));
    for (int i = 0; i < 256; ++i) nested_numbers_.push_back(0.001f * static_cast<float>(i - 90));
    if (packing.has_blocks()) draw_blocks(below);
    if (packing.scale != model::ScaleType::nested) return;
    for (int64_t i = 0; i < divide_up(rows * groups_, packing_.absmax_share()); ++i)
      absmax_.push_back(1.f + 0.25f * static_cast<float>(i % 8));
  }

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    std::copy_n(codes_.begin() + first * columns_, count * columns_, to);
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    if (packing_.has_blocks()) {
      const int64_t row = packing_.scales_bytes(groups_);
      std::copy_n(block_scales_.begin() + first * row, count * row, to);
      return;
    }
    const int64_t size = model::scale_bytes(packing_.scale);
    for (int64_t i = 0; i < count * groups_; ++i) {
      const uint8_t code = scale_codes_[static_cast<size_t>(first * groups_ + i)];
      const float value = plain_scale(code);
      std::byte* at = to + i * size;
      if (size == 1) *at = std::byte{code};
      if (packing_.scale == model::ScaleType::f32) std::memcpy(at, &value, 4);
      if (packing_.scale == model::ScaleType::f16) convert(&value, DType::f32, at, DType::f16, 1);
      if (packing_.scale == model::ScaleType::bf16) convert(&value, DType::f32, at, DType::bf16, 1);
    }
  }
  void zeros(int64_t first, int64_t count, uint8_t* to) const override {
    std::copy_n(zeros_.begin() + first * groups_, count * groups_, to);
  }
  void factors(int64_t first, int64_t count, float* to) const override {
    std::copy_n(factors_.begin() + first, count, to);
  }
  void input_groups(int32_t* to) const override { std::ranges::copy(order_, to); }
  void table(std::span<float, 16> to) const override {
    if (packing_.has_blocks()) {
      std::ranges::copy(*find_ggml_blocks(packing_.blocks)->table, to.begin());
    } else {
      std::ranges::copy(kNumbers, to.begin());
    }
  }
  void nested(model::NestedScales& to) const override {
    std::ranges::copy(nested_numbers_, to.numbers.begin());
    std::ranges::copy(absmax_, to.absmax.begin());
    to.offset = 0.125f;
  }
  [[nodiscard]] model::InputScale input_scale() const override { return kInputScale; }

  /// w[o, n] by the formula in packing.h.
  [[nodiscard]] double weight(int64_t o, int64_t n) const {
    const int64_t group = packing_.ordered     ? order_[static_cast<size_t>(n)]
                          : packing_.group > 0 ? n / packing_.group
                                               : 0;
    const double factor = packing_.factors ? double{factors_[static_cast<size_t>(o)]} : 1.0;
    if (packing_.has_blocks())
      return factor * double{block_values_[static_cast<size_t>(o * columns_ + n)]};
    const auto at = static_cast<size_t>(o * groups_ + group);
    const uint8_t code = codes_[static_cast<size_t>(o * columns_ + n)];
    double number = code;
    if (packing_.code == model::Code::e4m3) number = double{e4m3_to_float(code)};
    if (packing_.code == model::Code::table) number = double{kNumbers[code]};
    if (packing_.code == model::Code::none) number = 1;
    if (packing_.code == model::Code::integer)
      number -= static_cast<double>(packing_.zero) + (packing_.zeros ? zeros_[at] : 0);
    double scale = double{plain_scale(scale_codes_[at])};
    if (packing_.scale == model::ScaleType::nested)
      scale = double{nested_numbers_[scale_codes_[at]]} *
                  double{absmax_[at / static_cast<size_t>(packing_.absmax_share())]} +
              0.125;
    return number * scale * factor;
  }

 private:
  /// What ggml's blocks have beside their codes, and the values of all, by the slow decoder.
  template <typename Below>
  void draw_blocks(const Below& below) {
    const GgmlBlocks& blocks = *find_ggml_blocks(packing_.blocks);
    block_values_.resize(codes_.size());
    for (size_t done = 0; done < codes_.size(); done += static_cast<size_t>(blocks.values)) {
      for (int64_t i = 0; i < blocks.halves; ++i) {
        const uint16_t half = float_to_f16(0.001f * static_cast<float>(1 + below(100)));
        block_scales_.push_back(static_cast<std::byte>(half & 255));
        block_scales_.push_back(static_cast<std::byte>(half >> 8));
      }
      const bool power = blocks.type == GgmlType::mxfp4;
      for (int64_t i = 0; i < blocks.bytes; ++i)
        block_scales_.push_back(static_cast<std::byte>(power ? 118 + below(8) : below(255)));
      decode_ggml_codes(blocks, codes_.data() + done,
                        block_scales_.data() + std::ssize(block_scales_) - blocks.scale_bytes(),
                        block_values_.data() + done);
    }
  }
  /// The number that a scale's code stands for, without a second stage.
  [[nodiscard]] float plain_scale(uint8_t code) const {
    if (packing_.scale == model::ScaleType::e4m3) return e4m3_to_float(code);
    if (packing_.scale == model::ScaleType::e8m0) return e8m0_to_float(code);
    const int number = packing_.code == model::Code::none ? code - 60 : code;  // of both signs
    return static_cast<float>(number) / 64;                                    // exact in 16 bits
  }

  model::Packing packing_;
  int64_t rows_, columns_, groups_;
  std::vector<uint8_t> codes_, zeros_, scale_codes_;
  std::vector<float> factors_, nested_numbers_, absmax_;
  std::vector<int32_t> order_;
  std::vector<std::byte> block_scales_;
  std::vector<float> block_values_;
};

/// The packing of a type of a GGUF file.
inline model::Packing ggml_case(GgmlType type, bool factors = false,
                                model::InputRounding inputs = model::InputRounding::none) {
  const GgmlBlocks& blocks = *find_ggml_blocks(type);
  return {.format = model::PackedFormat::ggml,
          .code = blocks.table ? model::Code::table : model::Code::integer,
          .blocks = type,
          .bits = blocks.bits,
          .group = blocks.group,
          .scale = model::ScaleType::blocks,
          .zero = blocks.zero,
          .factors = factors,
          .inputs = inputs};
}

struct PackedCase {
  const char* name;
  model::Packing packing;
};

inline const std::vector<PackedCase> kPackedCases = {
    {"2 bits, zero points",
     {.bits = 2, .group = 16, .scale = model::ScaleType::f16, .zeros = true, .zero = 1}},
    {"3 bits, zero points",
     {.bits = 3, .group = 32, .scale = model::ScaleType::f16, .zeros = true}},
    {"4 bits, one zero point",
     {.bits = 4, .group = 32, .scale = model::ScaleType::bf16, .zero = 8}},
    {"4 bits, all inputs in a group",
     {.bits = 4, .scale = model::ScaleType::f32, .zeros = true, .zero = 1}},
    {"4 bits, activation order",
     {.bits = 4, .group = 24, .scale = model::ScaleType::f16, .zeros = true, .ordered = true}},
    {"8 bits", {.bits = 8, .group = 0, .zero = 128}},
    {"8 bits, zero points above 255", {.bits = 8, .group = 48, .zeros = true, .zero = 1}},
    {"float8", {.format = model::PackedFormat::fp8, .code = model::Code::e4m3, .bits = 8}},
    {"float8 in blocks",
     {.format = model::PackedFormat::fp8, .code = model::Code::e4m3, .bits = 8, .group = 40}},
    {"NVFP4",
     {.format = model::PackedFormat::nvfp4,
      .code = model::Code::table,
      .bits = 4,
      .group = 16,
      .scale = model::ScaleType::e4m3,
      .factors = true}},
    {"MXFP4",
     {.format = model::PackedFormat::mxfp4,
      .code = model::Code::table,
      .bits = 4,
      .group = 16,
      .scale = model::ScaleType::e8m0}},
    {"double-quantized scales",
     {.format = model::PackedFormat::nf4,
      .code = model::Code::table,
      .bits = 4,
      .group = 8,
      .scale = model::ScaleType::nested,
      .block_inputs = 8 * 256}},
    {"scales that pieces of outputs share",
     {.format = model::PackedFormat::nf4,
      .code = model::Code::table,
      .bits = 4,
      .group = 8,
      .scale = model::ScaleType::nested,
      .block_inputs = 24}},
    {"8 bits, inputs in int8",
     {.bits = 8, .zero = 128, .inputs = model::InputRounding::int8_token}},
    {"8 bits, inputs with zero points",
     {.bits = 8, .zero = 128, .inputs = model::InputRounding::int8_zeros}},
    {"4 bits, inputs in 8 bits",
     {.bits = 4, .group = 32, .zero = 8, .inputs = model::InputRounding::int8_token}},
    {"8 bits, inputs in int8 by one scale",
     {.bits = 8, .zero = 128, .inputs = model::InputRounding::int8_static}},
    {"8 bits, inputs in int8 by one scale and zero point",
     {.bits = 8, .zero = 128, .inputs = model::InputRounding::int8_static_zeros}},
    {"8 bits in groups, inputs in int8",
     {.bits = 8, .group = 80, .zero = 128, .inputs = model::InputRounding::int8_token}},
    {"float8, inputs in float8",
     {.format = model::PackedFormat::fp8,
      .code = model::Code::e4m3,
      .bits = 8,
      .inputs = model::InputRounding::fp8_token}},
    {"float8, inputs in float8 below a bound",
     {.format = model::PackedFormat::fp8,
      .code = model::Code::e4m3,
      .bits = 8,
      .inputs = model::InputRounding::fp8_bounded}},
    {"float8 in blocks, inputs in float8 by groups",
     {.format = model::PackedFormat::fp8,
      .code = model::Code::e4m3,
      .bits = 8,
      .group = 128,
      .inputs = model::InputRounding::fp8_group}},
    {"powers of two, inputs in MXFP4",
     {.format = model::PackedFormat::mxfp4,
      .code = model::Code::table,
      .bits = 4,
      .group = 32,
      .scale = model::ScaleType::e8m0,
      .inputs = model::InputRounding::mxfp4_group}},
    {"float8 by powers of two, inputs in MXFP8",
     {.format = model::PackedFormat::fp8,
      .code = model::Code::e4m3,
      .bits = 8,
      .group = 32,
      .inputs = model::InputRounding::mxfp8_group}},
};

/// Types of GGUF files.
inline const std::vector<PackedCase> kGgmlCases = {
    {"numbers in 16 bits",
     {.format = model::PackedFormat::ggml,
      .code = model::Code::none,
      .blocks = GgmlType::f16,
      .bits = 32,
      .group = 1,
      .scale = model::ScaleType::f16,
      .factors = true}},
    {"Q4_0", ggml_case(GgmlType::q4_0)},
    {"Q4_1", ggml_case(GgmlType::q4_1)},
    {"Q5_1", ggml_case(GgmlType::q5_1)},
    {"Q8_0", ggml_case(GgmlType::q8_0)},
    {"Q2_K", ggml_case(GgmlType::q2_k)},
    {"Q3_K", ggml_case(GgmlType::q3_k)},
    {"Q4_K", ggml_case(GgmlType::q4_k)},
    {"Q5_K and factors", ggml_case(GgmlType::q5_k, true)},
    {"Q6_K", ggml_case(GgmlType::q6_k)},
    {"IQ4_XS", ggml_case(GgmlType::iq4_xs)},
    {"ggml's MXFP4", ggml_case(GgmlType::mxfp4)},
    {"ggml's NVFP4 and factors", ggml_case(GgmlType::nvfp4, true)},
    {"Q4_K, inputs in int8", ggml_case(GgmlType::q4_k, false, model::InputRounding::int8_group256)},
    {"Q8_0, inputs in int8", ggml_case(GgmlType::q8_0, false, model::InputRounding::int8_group32)},
};

/// Both, and every type of a GGUF file with inputs in int8.
inline std::vector<PackedCase> cpu_cases() {
  using enum GgmlType;
  std::vector<PackedCase> all = kPackedCases;
  all.insert(all.end(), kGgmlCases.begin(), kGgmlCases.end());
  for (const GgmlType type : {q4_0, q4_1, q5_0, q5_1, iq4_nl, mxfp4, nvfp4})
    all.push_back({"blocks of 32 to 64, inputs in int8",
                   ggml_case(type, type == nvfp4, model::InputRounding::int8_group32)});
  for (const GgmlType type : {q2_k, q3_k, q5_k, q6_k, iq4_xs})
    all.push_back({"blocks of 256, inputs in int8",
                   ggml_case(type, false, model::InputRounding::int8_group256)});
  return all;
}

}  // namespace plimsoll::testing
