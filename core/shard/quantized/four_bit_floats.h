// Weights of four-bit floats, two in a byte: NVFP4 and MXFP4.
#pragma once

#include "shard/quantized/layer_class.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {

bool has_four_bit_floats(const quantization::WeightScheme& scheme);

/// The parameters of such layers and experts, one by one: experts have each of w13, then of w2.
class FourBitFloats {
 public:
  static constexpr int64_t kInByte = 2;

  FourBitFloats(const quantization::WeightScheme& scheme, const LayerClass& of);

  void add_codes(QuantisedParameters& to) const;
  /// Of groups of inputs.
  void add_scales(QuantisedParameters& to) const;
  /// Of the matrix; NVFP4 alone has them.
  void add_second_scales(QuantisedParameters& to) const;
  void add_input_scales(QuantisedParameters& to) const;

 private:
  static void add_unused_scales(QuantisedParameters& to);

  const quantization::WeightScheme& scheme_;
  const LayerClass& of_;
  bool second_ = false;
};

/// All parameters of a linear layer.
void add_four_bit_floats(QuantisedParameters& to, const quantization::WeightScheme& scheme,
                         const LayerClass& of);

}  // namespace plimsoll::shard
