// Recurrent states of hybrid models (gated delta net, Mamba 2, Kimi delta attention).
#pragma once

#include <cstdint>

#include "engines/model_config.h"
#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

struct States {
  int64_t layers = 0;            // with a state
  int64_t attention_layers = 0;  // with a KV cache
  int64_t bytes_per_request = 0;
};

/// Throws Error(checkpoint_unusable).
States states_of(const Launch& launch, const ModelConfig& config);

/// State slots that a running request takes.
int64_t slots_per_request(const Launch& launch);

}  // namespace plimsoll::engines::sglang
