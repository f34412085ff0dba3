// Weights of one byte, fp8 and int8, and their scales.
#pragma once

#include "shard/quantized/layer_class.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {

/// The scheme with scales of groups of inputs (MXFP8) rewritten as scales of blocks of one output.
quantization::WeightScheme groups_as_blocks(quantization::WeightScheme scheme);

/// Adds the codes (or the scales) of the weight of a layer or of experts.
model::WeightSpec& add_eight_bit_codes(QuantizedParameters& to,
                                       const quantization::WeightScheme& scheme);
void add_eight_bit_scales(QuantizedParameters& to, const quantization::WeightScheme& scheme,
                          const LayerClass& of);

/// Adds all parameters of a linear layer with one-byte weights.
void add_eight_bits(QuantizedParameters& to, const quantization::WeightScheme& scheme,
                    const LayerClass& of);

}  // namespace plimsoll::shard
