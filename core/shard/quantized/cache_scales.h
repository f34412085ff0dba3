// The scales of queries, keys, values and probabilities that vLLM's attention layers have as
// parameters in a quantised model.
#pragma once

#include <string>
#include <vector>

#include "shard/quantized/quantized_layer.h"

namespace plimsoll::shard {

/// Adds the parameters of the attention in `module` ("model.layers.0.self_attn"), whose checkpoint
/// calls it `stored_module`: filled from the checkpoint's tensors where it has any, under any of
/// the names that vLLM knows, else with the value that stands for none.
void add_cache_scales(const std::string& method, const std::string& module,
                      const std::string& stored_module, const StoredTensors& stored,
                      std::vector<model::WeightSpec>& to);

}  // namespace plimsoll::shard
