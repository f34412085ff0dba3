// Weights of four-bit floats, two in a byte: NVFP4 and MXFP4.
#pragma once

#include "shard/quantized/layer_class.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {

bool has_four_bit_floats(const quantization::WeightScheme& scheme);

/// Adds the parameters of layers and experts with four-bit floats, kind by kind: experts have each
/// kind for w13, then for w2.
class FourBitFloats {
 public:
  static constexpr int64_t kInByte = 2;

  FourBitFloats(const quantization::WeightScheme& scheme, const LayerClass& of);

  void add_codes(QuantizedParameters& to) const;
  /// Adds the scales of groups of inputs.
  void add_scales(QuantizedParameters& to) const;
  /// Adds the scale of the whole matrix, which NVFP4 alone has.
  void add_second_scales(QuantizedParameters& to) const;
  void add_input_scales(QuantizedParameters& to) const;

 private:
  static void add_unused_scales(QuantizedParameters& to);

  const quantization::WeightScheme& scheme_;
  const LayerClass& of_;
  bool second_ = false;
};

/// Adds all parameters of a linear layer with four-bit floats.
void add_four_bit_floats(QuantizedParameters& to, const quantization::WeightScheme& scheme,
                         const LayerClass& of);

}  // namespace plimsoll::shard
