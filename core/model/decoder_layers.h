// What build() makes of a Decoder: its layers and their attention.
#pragma once

#include <cstdint>
#include <string>

#include "model/decoder.h"

namespace plimsoll::model {

/// All layers, their weights in the order of vLLM's class.
void add_layers(const Decoder& decoder, ModelSpec& spec);

/// ModelSpec::layer_inputs, named as checkpoints do.
void add_layer_inputs(const Decoder& decoder, SpecBuilder& add, ModelSpec& spec);

/// Attention with q, k and v from the layer's input; `prefix` names the layer ("model.layers.3.").
AttentionSpec add_attention(const Decoder& decoder, const std::string& prefix, int64_t layer,
                            SpecBuilder& add);

}  // namespace plimsoll::model
