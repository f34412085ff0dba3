#include "shard/quantized/eight_bits.h"

#include "base/error.h"
#include "base/rounding.h"

namespace plimsoll::shard {
namespace {

using model::Part;
using model::Split;
using model::WeightSpec;
using quantization::Scales;
using quantization::WeightFormat;
using quantization::WeightScheme;

// Powers of two are a float type of their own in Quark's blocks, bytes in MXFP8.
DType block_scale_type(const WeightScheme& scheme) {
  if (scheme.scale_bytes > 1) return DType::f32;
  return scheme.block_out == 1 ? DType::u8 : DType::f8_e8m0;
}

void add_block_scales(QuantizedParameters& to, const WeightScheme& scheme, const LayerClass& of) {
  WeightSpec& made = to.by_rows(of.block_scales, block_scale_type(scheme), to.weight().split,
                                scheme.block_out, divide_up(to.inputs(), scheme.block_in));
  if (!of.four_axes || scheme.block_out == 1) return;
  made.shape = {made.shape[0], 1, made.shape[1], 1};
  for (Part& part : made.parts) {
    part.stored_shape = {part.stored_shape[0], 1, part.stored_shape[1], 1};
  }
}

void keep_blocks_whole(WeightSpec& made, const WeightScheme& scheme, const LayerClass& of) {
  if (made.split == Split::vocabulary) {
    refuse_quantized(made.name + " has scales of blocks, which vLLM does not load there");
  }
  const bool whole_inputs = of.four_axes || scheme.block_out == 1;
  if (whole_inputs && made.columns() % scheme.block_in != 0) {
    refuse_quantized(fmt::format("{}: {} inputs are no multiple of its blocks of {}", made.name,
                                 made.columns(), scheme.block_in));
  }
  made.output_multiple = scheme.block_out;
  made.input_multiple = scheme.block_in;
  // Scales of fused matrices that do not begin on a block would stand over each other.
  for (size_t i = 0; i + 1 < made.parts.size(); ++i) {
    if (made.parts[i].rows() % scheme.block_out == 0) continue;
    refuse_quantized(fmt::format("{}: {} rows of {} are no multiple of its blocks of {} rows",
                                 made.name, made.parts[i].rows(), made.parts[i].tensor,
                                 scheme.block_out));
  }
}

// Quark's, whose zero points of weights are loaded and dropped; int8 all of them.
void add_zero_points(QuantizedParameters& to, const WeightScheme& scheme) {
  if (scheme.scales == Scales::tensor) {
    to.by_part("weight_zero_point", DType::i8);
  } else {
    to.by_output("weight_zero_point", DType::i8, Axes::column, Axes::vector);
  }
  to.by_last("input_scale", DType::f32);
  to.by_last("input_zero_point", DType::i8);
}

void add_input_scales(QuantizedParameters& to, const WeightScheme& scheme) {
  if (scheme.format == WeightFormat::fp8) return to.by_part("input_scale");
  // The input's zero point is there where the activations have one; int8 in the checkpoint and in
  // the layer.
  if (to.all_have("input_zero_point")) to.by_last("input_zero_point", DType::i8);
  to.by_last("input_scale", DType::f32);
}

}  // namespace

WeightScheme groups_as_blocks(WeightScheme scheme) {
  if (scheme.scales != Scales::channel || scheme.group <= 0) return scheme;
  scheme.scales = Scales::block;
  scheme.block_out = 1;
  scheme.block_in = scheme.group;
  scheme.scale_bytes = 1;
  return scheme;
}

WeightSpec& add_eight_bit_codes(QuantizedParameters& to, const WeightScheme& scheme) {
  return to.as_stored(scheme.format == WeightFormat::fp8 ? DType::f8_e4m3 : DType::i8);
}

void add_eight_bit_scales(QuantizedParameters& to, const WeightScheme& scheme,
                          const LayerClass& of) {
  // Quark's int8 layers have columns where the checkpoint has vectors; its experts, as its fp8,
  // have vectors.
  const bool column = !of.scale_vectors || scheme.format == WeightFormat::int8;
  switch (scheme.scales) {
    case Scales::tensor:
      return to.by_part("weight_scale");
    case Scales::channel:
      return to.by_output("weight_scale", DType::f32, column ? Axes::column : Axes::vector,
                          of.scale_vectors ? Axes::vector : Axes::column);
    case Scales::block:
      return add_block_scales(to, scheme, of);
  }
}

void add_eight_bits(QuantizedParameters& to, const WeightScheme& stated, const LayerClass& of) {
  const WeightScheme scheme = groups_as_blocks(stated);
  WeightSpec& made = add_eight_bit_codes(to, scheme);
  if (scheme.scales == Scales::block) keep_blocks_whole(made, scheme, of);
  add_eight_bit_scales(to, scheme, of);
  if (scheme.input_bound) to.add_constant("input_scale_ub", DType::f32, scheme.most_input, {});
  if (!scheme.static_input) return;
  const bool zero_points = of.scale_vectors && scheme.format == WeightFormat::int8;
  zero_points ? add_zero_points(to, scheme) : add_input_scales(to, scheme);
}

}  // namespace plimsoll::shard
