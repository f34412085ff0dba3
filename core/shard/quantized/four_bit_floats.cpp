#include "shard/quantized/four_bit_floats.h"

#include <limits>

#include "base/error.h"

namespace plimsoll::shard {
namespace {

using model::Split;
using quantization::WeightFormat;
using quantization::WeightScheme;

constexpr int64_t kGroup = 16;  // of NVFP4

}  // namespace

bool has_four_bit_floats(const WeightScheme& scheme) {
  return scheme.format == WeightFormat::nvfp4 || scheme.format == WeightFormat::mxfp4;
}

FourBitFloats::FourBitFloats(const WeightScheme& scheme, const LayerClass& of)
    : scheme_(scheme), of_(of), second_(scheme.format == WeightFormat::nvfp4) {
  if (second_ && !of.any_group && scheme.group != kGroup) {
    refuse_quantized(fmt::format("NVFP4 in groups of {}; vLLM takes {}", scheme.group, kGroup));
  }
}

void FourBitFloats::add_codes(QuantizedParameters& to) const {
  (void)to.groups(scheme_);
  to.by_rows(of_.codes, DType::u8, to.weight().split, 1, to.inputs() / kInByte);
}

void FourBitFloats::add_scales(QuantizedParameters& to) const {
  to.by_rows("weight_scale", second_ ? DType::f8_e4m3 : DType::u8, to.weight().split, 1,
             to.groups(scheme_));
}

void FourBitFloats::add_second_scales(QuantizedParameters& to) const {
  if (second_) to.by_part(of_.second_scale);
}

void FourBitFloats::add_input_scales(QuantizedParameters& to) const {
  if (!second_) return;
  if (scheme_.static_input) return to.by_part(of_.input_scale);
  if (scheme_.unused_input) add_unused_scales(to);
}

// Adds the input scales of older checkpoints, which vLLM loads and drops. In layers they have the
// model's dtype, in experts float32.
void FourBitFloats::add_unused_scales(QuantizedParameters& to) {
  const std::string name = "input_scale";
  const bool layer = !to.weight().is_stack();
  const auto dtype = layer ? std::nullopt : std::optional(DType::f32);
  if (to.all_have(name)) return to.by_part(name, dtype);
  if (to.any_has(name) || !layer) {
    refuse_quantized(to.weight().name + " lacks scales of inputs (" + name +
                     "), which vLLM has room for and would leave unfilled");
  }
  to.add_constant(name, dtype, std::numeric_limits<float>::quiet_NaN(),
                  {static_cast<int64_t>(to.weight().parts.size())});
}

void add_four_bit_floats(QuantizedParameters& to, const WeightScheme& scheme,
                         const LayerClass& of) {
  const FourBitFloats floats(scheme, of);
  floats.add_codes(to);
  if (of.second_first) floats.add_second_scales(to);
  floats.add_scales(to);
  if (!of.second_first) floats.add_second_scales(to);
  floats.add_input_scales(to);
}

}  // namespace plimsoll::shard
