// How a launch of SGLang divides the experts of a mixture.
#pragma once

#include <cstdint>

#include "engines/command_line.h"
#include "engines/model_config.h"

namespace plimsoll::engines::sglang {

/// Whether all ranks exchange tokens for their experts (--moe-a2a-backend).
bool exchanges_tokens(const CommandLine& line);

/// The number of groups of ranks that each hold a part of the experts (--expert-parallel-size); an
/// exchange between all ranks makes it `tp`. The ranks of a group divide each
/// of its experts. `tp`: tensor-parallel ranks. Throws Refusal.
int64_t expert_ranks(const CommandLine& line, const ModelConfig& config, int64_t tp);

}  // namespace plimsoll::engines::sglang
