// Readers that Qwen's models of the gated delta rule share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// The decoder with those fields that all of Qwen's classes have; the family sets `parts`.
Decoder read_qwen(const ConfigReader& config, const char* family);

}  // namespace plimsoll::model
