// What vLLM 0.32's layers have for a quantised weight, before the kernels repack it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "quantization/scheme.h"
#include "shard/quantized/layer_class.h"

namespace plimsoll::shard {

/// What stands in for the checkpoint's tensors where a layout depends on them.
struct StoredTensors {
  /// Whether the linear weight is there as it is, unquantised.
  std::function<bool(const model::WeightSpec&)> is_plain;
  /// Whether a weight of a tower is there in integers or small floats.
  std::function<bool(const model::WeightSpec&)> holds_codes;
  /// Whether there is a tensor of this name.
  std::function<bool(const std::string&)> has;
  /// Whether the single value of this name is stored in the shape [1], not [].
  std::function<bool(const std::string&)> is_listed;

  [[nodiscard]] std::vector<int64_t> scalar_shape(const std::string& name) const {
    return is_listed(name) ? std::vector<int64_t>{1} : std::vector<int64_t>{};
  }
};

/// Adds what a linear layer (or output projection) has for `weight`, in the order of its
/// parameters. Throws Error(checkpoint_unusable) for schemes and sizes whose layout is not known.
void add_quantised_linear(const model::WeightSpec& weight, const quantization::WeightScheme& scheme,
                          const LayerClass& of, const StoredTensors& stored,
                          std::vector<model::WeightSpec>& result);

/// The same for the experts of a layer: `up` [experts, 2 * intermediate, hidden], `down` [experts,
/// hidden, intermediate].
void add_quantised_experts(const model::WeightSpec& up, const model::WeightSpec& down,
                           const quantization::WeightScheme& scheme, const LayerClass& of,
                           const StoredTensors& stored, std::vector<model::WeightSpec>& result);

/// Throws Error(checkpoint_unusable) with what is not written, and the cure.
[[noreturn]] void refuse_quantised(const std::string& what);

}  // namespace plimsoll::shard
