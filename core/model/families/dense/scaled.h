// What Granite's kin share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// A decoder with Granite's factors at embedding, attention, branches and logits (`logits_scaling`
/// as it stands).
Decoder read_scaled(const ConfigReader& config, const char* family);

/// A RoPE for each base of `layer_rope_theta`, else as all layers', which layers name by index;
/// null or 0: none.
void read_layer_bases(const ConfigReader& config, Decoder& decoder);

}  // namespace plimsoll::model
