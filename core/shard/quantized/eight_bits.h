// Weights of one byte, fp8 and int8, and their scales.
#pragma once

#include "shard/quantized/layer_class.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {

/// The scheme with the scales of groups of inputs (MXFP8) as those of blocks of one output.
quantization::WeightScheme groups_as_blocks(quantization::WeightScheme scheme);

/// The weight and its scales, of a layer or of experts.
model::WeightSpec& add_eight_bit_codes(QuantisedParameters& to,
                                       const quantization::WeightScheme& scheme);
void add_eight_bit_scales(QuantisedParameters& to, const quantization::WeightScheme& scheme,
                          const LayerClass& of);

/// All parameters of a linear layer.
void add_eight_bits(QuantisedParameters& to, const quantization::WeightScheme& scheme,
                    const LayerClass& of);

}  // namespace plimsoll::shard
