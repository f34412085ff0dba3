// Parameters of vLLM's attention layers in a quantized model: scales of queries, keys, values and
// probabilities.
#pragma once

#include <string>
#include <vector>

#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {

/// Adds the scales of the attention in `module` ("model.layers.0.self_attn"), which the checkpoint
/// calls `stored_module`: filled from the checkpoint's tensors where it has any, under any of the
/// names that vLLM knows, else with vLLM's value for "not given".
void add_cache_scales(const std::string& method, const std::string& module,
                      const std::string& stored_module, const StoredTensors& stored,
                      std::vector<model::WeightSpec>& to);

}  // namespace plimsoll::shard
