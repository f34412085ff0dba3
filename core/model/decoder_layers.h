// Makes layers and their attention from a Decoder, for build().
#pragma once

#include <cstdint>
#include <string>

#include "model/decoder.h"

namespace plimsoll::model {

/// Adds all layers, their weights in the order of vLLM's class.
void add_layers(const Decoder& decoder, ModelSpec& spec);

/// Adds ModelSpec::layer_inputs, named as in checkpoints.
void add_layer_inputs(const Decoder& decoder, SpecBuilder& add, ModelSpec& spec);

/// Adds attention with q, k and v from the layer's input; `prefix` names the layer
/// ("model.layers.3.").
AttentionSpec add_attention(const Decoder& decoder, const std::string& prefix, int64_t layer,
                            SpecBuilder& add);

}  // namespace plimsoll::model
