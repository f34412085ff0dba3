// Parameters of vLLM 0.32's layers for a quantized weight, before the kernels repack it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "quantization/scheme.h"
#include "shard/quantized/layer_class.h"

namespace plimsoll::shard {

/// Questions about the checkpoint's tensors, for layouts that depend on them.
struct StoredTensors {
  /// True when the linear weight is stored unquantized.
  std::function<bool(const model::WeightSpec&)> is_plain;
  /// True when a tower's weight is stored in integers or small floats.
  std::function<bool(const model::WeightSpec&)> holds_codes;
  /// True when the checkpoint has a tensor of this name.
  std::function<bool(const std::string&)> has;
  /// True when the single value of this name is stored in the shape [1], not [].
  std::function<bool(const std::string&)> is_listed;

  [[nodiscard]] std::vector<int64_t> scalar_shape(const std::string& name) const {
    return is_listed(name) ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  }
};

/// Adds the parameters of a linear layer (or output projection) for `weight`, in vLLM's order.
/// Throws Error(checkpoint_unusable) for schemes and sizes whose layout is not known.
void add_quantized_linear(const model::WeightSpec& weight, const quantization::WeightScheme& scheme,
                          const LayerClass& of, const StoredTensors& stored,
                          std::vector<model::WeightSpec>& result);

/// Adds the parameters of the experts of a layer: `up` [experts, 2 * intermediate, hidden], `down`
/// [experts, hidden, intermediate]. Throws as add_quantized_linear.
void add_quantized_experts(const model::WeightSpec& up, const model::WeightSpec& down,
                           const quantization::WeightScheme& scheme, const LayerClass& of,
                           const StoredTensors& stored, std::vector<model::WeightSpec>& result);

/// Throws Error(checkpoint_unusable) that says what `shard` does not write, and the cure.
[[noreturn]] void refuse_quantized(const std::string& what);

}  // namespace plimsoll::shard
