// What Granite's kin share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// What classes of Granite and HyperCLOVA X take for keys that a config lacks.
inline constexpr CommonDefaults kGranite{.sizes = {.vocab = 32000,
                                                   .hidden = 4096,
                                                   .intermediate = 11008,
                                                   .layers = 32,
                                                   .heads = 32,
                                                   .max_position = 2048}};

/// A decoder with Granite's factors at embedding, attention, branches and logits (`logits_scaling`
/// as it stands).
Decoder read_scaled(const ConfigReader& config, const char* family,
                    const CommonDefaults& defaults = kGranite);

/// A RoPE for each base of `layer_rope_theta`, else as all layers', which layers name by index;
/// null or 0: none.
void read_layer_bases(const ConfigReader& config, Decoder& decoder);

}  // namespace plimsoll::model
