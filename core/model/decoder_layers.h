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

/// Adds parameters that vLLM alone has; `prefix` ends with a dot.
void add_parameters(const std::vector<VllmParameter>& parameters, const std::string& prefix,
                    SpecBuilder& add);

/// Adds the gate of an attention's output below `module`, where the decoder has one.
Linear attention_gate(const Decoder& decoder, int64_t heads, int64_t value_dim,
                      const std::string& module, SpecBuilder& add);

/// Adds attention with q, k and v from the layer's input; `prefix` names the layer
/// ("model.layers.3.").
AttentionSpec add_attention(const Decoder& decoder, const std::string& prefix, int64_t layer,
                            SpecBuilder& add);

}  // namespace plimsoll::model
