// A parameter of vLLM's layers, named and shaped as the checkpoint's method has it.
#pragma once

#include "quantization/layer_parameters.h"
#include "shard/quantized/layer_class.h"
#include "shard/quantized/quantized_parameters.h"

namespace plimsoll::shard {

/// The scheme and method of a layer.
struct LayerForm {
  const quantization::WeightScheme& scheme;
  const LayerClass& of;

  [[nodiscard]] bool has(quantization::WeightFormat format) const {
    return scheme.format == format;
  }
  /// One byte a weight.
  [[nodiscard]] bool has_bytes() const;
  /// The end of a parameter's name.
  [[nodiscard]] const char* name_of(const quantization::LayerParameter& parameter) const;
  /// Throws Error(checkpoint_unusable) for options that the method's layers do not take.
  void check() const;
};

/// Adds a parameter of the list that layer_parameters() gives. Throws as add_quantized_linear.
void add_parameter(const quantization::LayerParameter& parameter, const LayerForm& form,
                   QuantizedParameters& to);

}  // namespace plimsoll::shard
