// Reader that Granite's mixtures of experts share.
#pragma once

#include "model/decoder_config.h"
#include "model/mixture.h"

namespace plimsoll::model {

/// Reads experts in all layers, without shared ones: `block_sparse_moe`.
Mixture read_granite_mixture(const ConfigReader& config, const Sizes& sizes);

}  // namespace plimsoll::model
