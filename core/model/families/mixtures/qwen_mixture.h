// Readers that Qwen's mixtures of experts share.
#pragma once

#include "model/mixture.h"

namespace plimsoll::model {

/// Reads experts, in the layers that `decoder_sparse_step` and `mlp_only_layers` leave to them.
Mixture read_qwen_mixture(const ConfigReader& config, int64_t layers);
/// Adds a shared MLP of `shared_expert_intermediate_size`, gated by a sigmoid.
void add_gated_shared(const ConfigReader& config, Mixture& mixture);

}  // namespace plimsoll::model
