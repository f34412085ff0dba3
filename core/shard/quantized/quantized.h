// The weight table of a quantized checkpoint in vLLM's load layout: what its loader fills before
// the kernels repack it.
#pragma once

#include <string>

#include "base/json.h"
#include "model/model_spec.h"
#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {

/// Replaces each quantized weight of `spec` by the parameters of vLLM 0.32's layer (packed
/// integers, scales, zero points), following `config`'s quantization_config, and adds the scales of
/// its attention; spec.quantization is empty after it. Throws Error(checkpoint_unusable) for
/// methods, options and layers whose layout is not known (layer_class.h has the known methods).
void quantize_weights(const Json& config, const StoredTensors& stored, model::ModelSpec& spec);

/// A sentence for messages: how vLLM's own saver treats a checkpoint of this method.
std::string saver_behaviour(const std::string& method);

}  // namespace plimsoll::shard
