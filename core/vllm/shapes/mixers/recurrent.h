// Sizes that mixers with a recurrent state share.
#pragma once

#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// Size of an element of the recurrent state: `--mamba-ssm-cache-dtype`, else what the config asks
/// for, else `fallback`.
int64_t state_element(const Builder& build, int64_t fallback);

/// Appends a layer whose state takes `bytes` on this rank.
void add_state(Builder& build, Amount bytes, const char* kernel);

}  // namespace plimsoll::vllm
