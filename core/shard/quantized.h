// The weight table of a quantised checkpoint in vLLM's load layout: what its loader fills before
// the kernels repack it.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "model/model_spec.h"

namespace plimsoll::shard {

/// What stands in for the checkpoint's tensors where a layout depends on them.
struct StoredTensors {
  /// Whether the linear weight is there as it is, unquantised.
  std::function<bool(const model::WeightSpec&)> is_plain;
  /// Whether there is a tensor of this name.
  std::function<bool(const std::string&)> has;
  /// The shape that a single value of this name is stored in ([] or [1]).
  std::function<std::vector<int64_t>(const std::string&)> scalar_shape;
};

/// Replaces each quantised linear weight of `spec` by what vLLM 0.32's layer has for it (packed
/// integers, scales, zero points), after `config`'s quantization_config, and adds the parameters
/// of its attention; spec.quantization is empty after it. fp8, AWQ, GPTQ and compressed-tensors
/// (8-bit and packed integers). Throws Error(checkpoint_unusable) for methods, options and layers
/// whose layout is not known.
void quantize_weights(const Json& config, const StoredTensors& stored, model::ModelSpec& spec);

/// A sentence on what vLLM's own saver makes of a checkpoint of this method.
std::string saver_behaviour(const std::string& method);

/// Whether the tensors whose elements the config tells (Part::values, index_group) hold just these.
/// Throws Error(checkpoint_unusable) naming the tensor.
void check_told_values(const checkpoint::WeightReader& reader, const model::ModelSpec& spec);

/// The elements of such a part, [first, first + count), in its dtype.
void fill_told_values(const model::Part& part, DType dtype, int64_t first, int64_t count,
                      std::byte* to);

}  // namespace plimsoll::shard
