// The formats by name.
#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "quantization/formats/stored_rows.h"

namespace plimsoll::quantization {
namespace {

using model::PackedFormat;

constexpr std::array kAwq = {"qweight", "qzeros",       "scales",
                             "weight",  "weight_scale", "weight_zero_point"};
constexpr std::array kGptq = {"qweight", "qzeros", "scales", "g_idx"};
constexpr std::array kPackedIntegers = {"weight_packed", "weight_scale", "weight_zero_point",
                                        "weight_g_idx", "weight_shape"};
constexpr std::array kEightBits = {"weight",          "weight_scale",     "weight_scale_inv",
                                   "input_scale",     "activation_scale", "weight_zero_point",
                                   "input_zero_point"};
constexpr std::array kNvfp4 = {
    "weight_packed",      "weight",         "weight_scale", "weight_global_scale",
    "input_global_scale", "weight_scale_2", "input_scale",  "input_scale_2"};
constexpr std::array kMxfp4 = {"weight_packed", "weight", "weight_scale"};
constexpr std::array kNf4 = {"weight",
                             "weight.absmax",
                             "weight.quant_map",
                             "weight.nested_absmax",
                             "weight.nested_quant_map",
                             "weight.quant_state.bitsandbytes__nf4",
                             "weight.quant_state.bitsandbytes__fp4"};

constexpr std::array kGgml = {"weight", "scale"};

using MakePacking = model::Packing (*)(const WeightScheme&, const StoredMatrix&);
using Open = std::unique_ptr<model::PackedRows> (*)(const model::Packing&, const StoredMatrix&);

struct Format {
  PackedFormat format;
  std::string_view name;
  WeightFormat scheme;
  std::span<const char* const> endings;
  MakePacking packing;
  Open open;
};

constexpr std::array kFormats = {
    Format{PackedFormat::awq, "AWQ", WeightFormat::awq, kAwq, awq_packing, open_awq},
    Format{PackedFormat::awq, "AMD Quark, int4", WeightFormat::quark_int4, kAwq, quark_int4_packing,
           open_awq},
    Format{PackedFormat::gptq, "GPTQ", WeightFormat::gptq, kGptq, gptq_packing, open_gptq},
    Format{PackedFormat::packed_integers, "compressed-tensors, packed integers",
           WeightFormat::packed, kPackedIntegers, packed_integers_packing, open_packed_integers},
    Format{PackedFormat::int8, "int8", WeightFormat::int8, kEightBits, eight_bits_packing,
           open_eight_bits},
    Format{PackedFormat::fp8, "fp8", WeightFormat::fp8, kEightBits, eight_bits_packing,
           open_eight_bits},
    Format{PackedFormat::nvfp4, "NVFP4", WeightFormat::nvfp4, kNvfp4, nvfp4_packing, open_nvfp4},
    Format{PackedFormat::mxfp4, "MXFP4", WeightFormat::mxfp4, kMxfp4, mxfp4_packing, open_mxfp4},
    Format{PackedFormat::nf4, "bitsandbytes, nf4", WeightFormat::bitsandbytes, kNf4, nf4_packing,
           open_nf4},
    Format{PackedFormat::ggml, "GGUF", WeightFormat::ggml, kGgml, ggml_packing, open_ggml},
};

const Format& format_of(PackedFormat format) {
  return *std::ranges::find(kFormats, format, &Format::format);
}

}  // namespace

model::Packing packing_of(const WeightScheme& scheme, const StoredMatrix& matrix) {
  const WeightScheme* found = &scheme;
  WeightScheme as_int8;
  // Integers of 8 bits without activations of 8 bits come packed into words or as they are, those
  // with one scale always so.
  const bool bytes = scheme.format == WeightFormat::packed && scheme.bits == 8 &&
                     !matrix.find("weight_packed") &&
                     (scheme.scales == Scales::tensor || matrix.find("weight"));
  if (bytes) {
    as_int8 = scheme;
    as_int8.format = WeightFormat::int8;
    found = &as_int8;
  }
  const auto row = std::ranges::find(kFormats, found->format, &Format::scheme);
  if (row == kFormats.end()) {
    fail(ExitCode::checkpoint_unusable,
         "{}: its quantization is not run; use the unquantized model", matrix.module);
  }
  return row->packing(*found, matrix);
}

bool holds_codes(const FindTensor& find) {
  if (find("qweight") || find("weight_packed")) return true;
  const std::optional<StoredTensor> weight = find("weight");
  return weight &&
         (weight->dtype == DType::u8 || weight->dtype == DType::i8 || weight->dtype == DType::i32 ||
          weight->dtype == DType::f8_e4m3 || weight->dtype == DType::f8_e5m2);
}

std::string_view format_name(PackedFormat format) {
  return format == PackedFormat::online_fp8 ? "--quantization fp8" : format_of(format).name;
}

std::span<const char* const> endings_of(PackedFormat format) {
  return format_of(format).endings;
}

std::unique_ptr<model::PackedRows> open_matrix(const model::Packing& packing,
                                               const StoredMatrix& matrix) {
  return format_of(packing.format).open(packing, matrix);
}

}  // namespace plimsoll::quantization
