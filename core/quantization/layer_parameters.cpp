#include "quantization/layer_parameters.h"

#include <numeric>
#include <utility>

namespace plimsoll::quantization {
namespace {

using Parameters = std::vector<LayerParameter>;

/// Values beside 8-bit codes: one for each matrix, output or block.
LayerParameter beside_codes(const WeightScheme& scheme, LayerParameter values) {
  if (scheme.scales == Scales::tensor) values.values = Values::part;
  if (scheme.scales == Scales::channel) values.inputs = 0;
  if (scheme.scales != Scales::block) return values;
  // Powers of two are bytes in MXFP8, a float type of their own in larger blocks.
  if (scheme.scale_bytes == 1) values.dtype = scheme.block_out == 1 ? DType::u8 : DType::f8_e8m0;
  values.outputs = scheme.block_out;
  values.inputs = scheme.block_in;
  values.partial = true;
  return values;
}

Parameters eight_bits(const WeightScheme& scheme, bool linear) {
  const bool fp8 = scheme.format == WeightFormat::fp8;
  const LayerParameter input_zeros{
      .name = "input_zero_point", .dtype = DType::i8, .values = Values::matrix};
  Parameters all = {{"weight", Holds::codes, fp8 ? DType::f8_e4m3 : DType::i8},
                    beside_codes(scheme, {"weight_scale", Holds::scales, DType::f32})};
  if (linear && scheme.input_bound) {
    all.push_back({"input_scale_ub", Holds::input_bound, DType::f32, Values::matrix});
  }
  if (!scheme.static_input) return all;
  if (scheme.zero_points) {
    all.push_back(beside_codes(scheme, {"weight_zero_point", Holds::zeros, DType::i8}));
  } else if (scheme.token_inputs == TokenInputs::int8_static_zeros) {
    all.push_back(input_zeros);
  }
  const Values scales = fp8 && linear ? Values::part : Values::matrix;
  all.push_back({"input_scale", Holds::input_scales, DType::f32, scales});
  if (scheme.zero_points) all.push_back(input_zeros);
  return all;
}

/// Integers in words, with scales and zero points for each group of inputs.
Parameters packed_integers(const WeightScheme& scheme, LayerKind kind) {
  const bool packed = scheme.format == WeightFormat::packed;
  const bool gptq = scheme.format == WeightFormat::gptq;
  const bool linear = kind == LayerKind::linear, turned = kind == LayerKind::turned_experts;
  const bool own_names = packed || scheme.format == WeightFormat::quark_int4;
  const std::optional<DType> word = turned ? DType::u8 : DType::i32;
  const bool by_inputs = packed || gptq || turned;
  const LayerParameter codes{.name = packed      ? "weight_packed"
                                     : own_names ? "weight"
                                                 : "qweight",
                             .holds = Holds::codes,
                             .dtype = word,
                             .packed = by_inputs ? Packed::along_inputs : Packed::along_outputs};
  const LayerParameter scales{.name = own_names ? "weight_scale" : "scales",
                              .holds = Holds::scales,
                              .inputs = scheme.group,
                              .whole = scheme.group <= 0 || scheme.ordered_groups};
  LayerParameter zeros = scales;
  zeros.name = own_names ? "weight_zero_point" : "qzeros";
  zeros.holds = Holds::zeros;
  zeros.dtype = word;
  zeros.packed = Packed::along_outputs;
  LayerParameter shape{.name = "weight_shape", .holds = Holds::shape, .values = Values::matrix};
  if (linear) shape.dtype = DType::i64;
  // compressed-tensors' and moe_wna16's layers have zero points only where the codes have them.
  const bool asymmetric = scheme.zero_points || !(packed || (turned && !own_names));
  Parameters all = {codes, scales};
  if (packed && linear) all.push_back(shape);
  if (asymmetric) all.push_back(zeros);
  if (packed && !linear) all.push_back(shape);
  if (linear && !packed && !gptq) std::swap(all[1], all[2]);
  // Biases that some checkpoints of experts hold have their place in any case.
  if (gptq && kind == LayerKind::experts) all.push_back({"bias", Holds::bias, {}, {}, 1, 0});
  if (gptq && linear && scheme.ordered_groups) {
    all.push_back({"g_idx", Holds::input_groups, DType::i32, {}, 0});
  }
  return all;
}

Parameters four_bit_floats(const WeightScheme& scheme, bool linear) {
  const bool nvfp4 = scheme.format == WeightFormat::nvfp4;
  const LayerParameter codes{
      .name = "weight", .holds = Holds::codes, .dtype = DType::u8, .packed = Packed::along_inputs};
  const LayerParameter scales{.name = "weight_scale",
                              .holds = Holds::scales,
                              .dtype = nvfp4 ? DType::f8_e4m3 : DType::u8,
                              .inputs = scheme.group};
  if (!nvfp4) return {codes, scales};
  Parameters all = {
      codes, scales, {"weight_scale_2", Holds::matrix_scales, DType::f32, Values::part}};
  if (linear) std::swap(all[1], all[2]);
  if (linear && !scheme.static_input && !scheme.unused_input) return all;
  all.push_back({"input_scale", Holds::input_scales, DType::f32, Values::part});
  // Scales that vLLM loads into layers and drops have the model's dtype.
  if (linear && !scheme.static_input) all.back().dtype = std::nullopt;
  return all;
}

}  // namespace

WeightScheme groups_as_blocks(WeightScheme scheme) {
  constexpr int64_t kGroup = 32;  // of MXFP8; vLLM has no kernel for others
  if (scheme.format != WeightFormat::fp8 || scheme.scales != Scales::channel ||
      scheme.group != kGroup) {
    return scheme;
  }
  scheme.scales = Scales::block;
  scheme.block_out = 1;
  scheme.block_in = scheme.group;
  scheme.scale_bytes = 1;
  return scheme;
}

std::vector<LayerParameter> layer_parameters(const WeightScheme& scheme, LayerKind kind) {
  const bool linear = kind == LayerKind::linear;
  switch (scheme.format) {
    case WeightFormat::plain:
      return {{"weight", Holds::codes}};
    case WeightFormat::fp8:
    case WeightFormat::int8:
      return eight_bits(groups_as_blocks(scheme), linear);
    case WeightFormat::awq:
    case WeightFormat::gptq:
    case WeightFormat::packed:
    case WeightFormat::quark_int4:
      return packed_integers(scheme, kind);
    case WeightFormat::nvfp4:
    case WeightFormat::mxfp4:
      return four_bit_floats(scheme, linear);
    case WeightFormat::bitsandbytes:
      return {{.name = "weight", .dtype = DType::u8, .packed = Packed::along_inputs}};
    case WeightFormat::ggml:
      break;
  }
  return {};
}

std::vector<LayerParameter> attention_parameters(const std::string& method) {
  const auto value = [](const char* name, Holds holds, std::optional<DType> dtype) {
    return LayerParameter{.name = name, .holds = holds, .dtype = dtype, .values = Values::matrix};
  };
  Parameters all;
  if (method != "compressed-tensors") {  // vLLM's BaseKVCacheMethod
    for (const char* name : {"q_scale", "k_scale", "v_scale", "prob_scale"})
      all.push_back(value(name, Holds::scales, std::nullopt));
    return all;
  }
  for (const char* name : {"k_scale", "v_scale", "q_scale"})
    all.push_back(value(name, Holds::scales, DType::f32));
  for (const char* name : {"k_zero_point", "v_zero_point", "q_zero_point"})
    all.push_back(value(name, Holds::zeros, std::nullopt));
  return all;
}

bool cuts_blocks(const model::ExpertBlocks& blocks, bool split) {
  return blocks.intermediate % blocks.outputs != 0 ||
         (split && blocks.intermediate % blocks.inputs != 0);
}

std::optional<model::ExpertBlocks> finer_blocks(const model::ExpertBlocks& blocks) {
  model::ExpertBlocks fine = blocks;
  int64_t& group = fine.inputs;
  if (blocks.uneven == model::UnevenBlocks::refined) {
    const int64_t slice = std::gcd(blocks.intermediate, blocks.hidden);
    group = fine.outputs = std::gcd(std::gcd(blocks.outputs, blocks.inputs), slice);
  } else if (blocks.uneven == model::UnevenBlocks::needed) {
    const auto divides = [&] { return blocks.intermediate % group + blocks.hidden % group == 0; };
    while (group >= kFinestBlock && !divides()) group /= 2;
  } else {
    return std::nullopt;
  }
  return group < kFinestBlock ? std::nullopt : std::optional(fine);
}

bool suits_marlin(int64_t group, int64_t hidden) {
  constexpr int64_t kTile = 128;
  return (group <= 0 || group == 32 || group == 64 || group == 128) && hidden % kTile == 0;
}

}  // namespace plimsoll::quantization
