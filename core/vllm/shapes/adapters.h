// Room for the adapters (LoRA) of the token table and of the output, in the classes that have it.
#pragma once

#include <string_view>

#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// Counts one stage's slots for adapters of the token table and the output of a language model
/// (vllm/lora/layers/vocab_parallel_embedding.py, logits_processor.py): whole on every rank.
/// Throws Error(usage) for a vocabulary that vLLM refuses.
void adapt_vocabulary(std::string_view language, Builder& build);

/// True where the release holds adapters of the model's experts in one factor for gate and up
/// (`is_3d_moe_weight`).
bool adapts_experts_fused(std::string_view architecture, const model::VllmVersion& version);

}  // namespace plimsoll::vllm
