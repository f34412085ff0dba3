// What Granite's kin share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// A decoder with Granite's factors at embedding, attention, branches and logits (`logits_scaling`
/// as it stands).
Decoder read_scaled(const ConfigReader& config, const char* family);

}  // namespace plimsoll::model
