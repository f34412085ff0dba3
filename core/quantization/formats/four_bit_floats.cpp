// e2m1 numbers, two in a byte, the lower bits first. NVFP4: a float8 scale for each 16 inputs, and
// one of the matrix, by which compressed-tensors divides (`weight_packed`, `weight_global_scale`)
// and ModelOpt and AMD Quark multiply (`weight`, `weight_scale_2`). MXFP4 (compressed-tensors): a
// power of two for each 32; AMD Quark's has its codes as `weight`.
#include <algorithm>

#include "base/error.h"
#include "base/float8.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

using model::PackedFormat;

class FourBitFloatRows : public StoredRows {
 public:
  FourBitFloatRows(const model::Packing& packing, const StoredMatrix& matrix,
                   std::initializer_list<DType> scale_types)
      : StoredRows(packing, matrix),
        codes_(require(has("weight_packed") ? "weight_packed" : "weight", {DType::u8},
                       {rows(), columns() / 2})),
        scales_(require("weight_scale", scale_types, {rows(), groups()})) {}

  void codes(int64_t first, int64_t count, uint8_t* to) const override {
    codes_.guarded([&] {
      for (int64_t i = 0; i < count; ++i) {
        const std::byte* from = codes_.data + ((first + i) * columns() + first_input()) / 2;
        for (const std::byte* const end = from + inputs() / 2; from < end; ++from) {
          *to++ = static_cast<uint8_t>(*from) & 15;
          *to++ = static_cast<uint8_t>(*from) >> 4;
        }
      }
    });
  }
  void scales(int64_t first, int64_t count, std::byte* to) const override {
    const auto index = [this](int64_t output, int64_t g) { return output * groups() + g; };
    copy_scales(scales_, first, count, index, to);
  }
  void table(std::span<float, 16> to) const override { std::ranges::copy(kE2m1, to.begin()); }

 private:
  StoredTensor codes_, scales_;
};

std::string not_positive(float scale) {
  return fmt::format("is {}; expected a positive number", scale);
}

class Nvfp4Rows final : public FourBitFloatRows {
 public:
  Nvfp4Rows(const model::Packing& packing, const StoredMatrix& matrix)
      : FourBitFloatRows(packing, matrix, {DType::f8_e4m3}) {
    const bool divides = has("weight_global_scale");
    const char* const name = divides ? "weight_global_scale" : "weight_scale_2";
    const float global = single(name);
    if (!(global > 0)) refuse(matrix.module + "." + name, not_positive(global));
    factor_ = divides ? 1 / global : global;
    if (packing.inputs != model::InputRounding::nvfp4_group) return;
    const char* const input = divides                ? "input_global_scale"
                              : has("input_scale_2") ? "input_scale_2"
                                                     : "input_scale";
    const float scale = single(input);
    if (!(scale > 0)) refuse(matrix.module + "." + input, not_positive(scale));
    input_scale_.scale = divides ? scale : 1 / scale;
  }
  void factors(int64_t, int64_t count, float* to) const override {
    std::fill_n(to, count, factor_);
  }

 private:
  float factor_ = 1;
};

model::Packing floats_packing(const StoredMatrix& matrix, const model::Packing& packing) {
  if (matrix.columns % packing.group != 0 || matrix.columns % 2 != 0) {
    fail(ExitCode::checkpoint_unusable, "{}: {} inputs are no multiple of groups of {}",
         matrix.module, matrix.columns, packing.group);
  }
  return packing;
}

}  // namespace

model::Packing nvfp4_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  return floats_packing(matrix, {.format = PackedFormat::nvfp4,
                                 .code = model::Code::table,
                                 .group = std::max<int64_t>(scheme.group, 1),
                                 .scale = model::ScaleType::e4m3,
                                 .factors = true});
}

model::Packing mxfp4_packing(const WeightScheme& scheme, const StoredMatrix& matrix) {
  return floats_packing(matrix, {.format = PackedFormat::mxfp4,
                                 .code = model::Code::table,
                                 .group = std::max<int64_t>(scheme.group, 1),
                                 .scale = model::ScaleType::e8m0});
}

std::unique_ptr<model::PackedRows> open_nvfp4(const model::Packing& packing,
                                              const StoredMatrix& matrix) {
  return std::make_unique<Nvfp4Rows>(packing, matrix);
}

std::unique_ptr<model::PackedRows> open_mxfp4(const model::Packing& packing,
                                              const StoredMatrix& matrix) {
  return std::make_unique<FourBitFloatRows>(
      packing, matrix, std::initializer_list<DType>{DType::u8, DType::f8_e8m0});
}

}  // namespace plimsoll::quantization
