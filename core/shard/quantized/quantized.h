// The weight table of a quantised checkpoint in vLLM's load layout: what its loader fills before
// the kernels repack it.
#pragma once

#include <string>

#include "base/json.h"
#include "model/model_spec.h"
#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {

/// Replaces each quantised weight of `spec` by what vLLM 0.32's layer has for it (packed integers,
/// scales, zero points), after `config`'s quantization_config, and adds the parameters of its
/// attention; spec.quantization is empty after it. Throws Error(checkpoint_unusable) for methods
/// (layer_class.h has those that are known), options and layers whose layout is not known.
void quantize_weights(const Json& config, const StoredTensors& stored, model::ModelSpec& spec);

/// A sentence on what vLLM's own saver makes of a checkpoint of this method.
std::string saver_behaviour(const std::string& method);

}  // namespace plimsoll::shard
