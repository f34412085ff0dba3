// Readers that Granite's kin share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// A decoder with Granite's factors at embedding, attention, branches and logits (`logits_scaling`
/// as it stands).
Decoder read_scaled(const ConfigReader& config, const char* family);

/// Reads a RoPE for each base in `layer_rope_theta`, which layers name by index; null or 0: none.
/// Without that key all layers have the common RoPE.
void read_layer_bases(const ConfigReader& config, Decoder& decoder);

}  // namespace plimsoll::model
