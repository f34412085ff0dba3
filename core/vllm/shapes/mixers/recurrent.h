// Sizes that mixers with a recurrent state share.
#pragma once

#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// Size of an element of the recurrent state: `--mamba-ssm-cache-dtype`, else what the config asks
/// for, else `fallback`.
int64_t state_element(const Builder& build, int64_t fallback);

/// Appends a layer whose state takes `bytes` on this rank; `checkpoint` as in KvLayer.
void add_state(Builder& build, Amount bytes, const char* kernel, int64_t checkpoint = 0);

/// Of a layer with a delta rule gated for each channel, by release, card and the bound of its gate
/// (vllm/models/kimi_k3/nvidia/kda.py: is_flashkda_supported).
int64_t channel_delta_checkpoint(const Builder& build, int64_t head_size);

}  // namespace plimsoll::vllm
