// What an architecture's config.json has beside values that metadata keys state one to one.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json.h"
#include "checkpoint/gguf/keys.h"

namespace plimsoll::checkpoint::gguf {

// Helpers of several architectures.

/// A whole number from 1 that must be there.
int64_t required(const Keys& keys, std::string_view key);
/// True when some layer has a tensor of this ending (".attn_q.bias").
bool has_in_layers(const Keys& keys, std::string_view ending);
/// Adds the rotated part of a head, of configs that state it as a share.
void add_rotary_share(const Keys& keys, Json& config);

/// The same number as `metadata` has for each layer, as `config_key`; nothing where it has none.
void add_by_layer(const Keys& keys, const char* metadata, const char* config_key, Json& config);

// One function for an architecture, or for its kin, called after the common keys were read.

void finish_llama(const Keys& keys, Json& config);
void finish_mistral3(const Keys& keys, Json& config);
void finish_granite(const Keys& keys, Json& config);
void finish_smollm3(const Keys& keys, Json& config);
void finish_qwen2(const Keys& keys, Json& config);
void finish_gemma(const Keys& keys, Json& config);
void finish_later_gemma(const Keys& keys, Json& config);
void finish_phi2(const Keys& keys, Json& config);
void finish_phi3(const Keys& keys, Json& config);
void finish_exaone4(const Keys& keys, Json& config);
void finish_glm4(const Keys& keys, Json& config);
void finish_seed_oss(const Keys& keys, Json& config);
void finish_cohere(const Keys& keys, Json& config);
void finish_ernie(const Keys& keys, Json& config);
void finish_hunyuan(const Keys& keys, Json& config);
void finish_stablelm(const Keys& keys, Json& config);
void finish_starcoder2(const Keys& keys, Json& config);
void finish_falcon(const Keys& keys, Json& config);
void finish_gpt_neox(const Keys& keys, Json& config);
void finish_mpt(const Keys& keys, Json& config);
void finish_internlm2(const Keys& keys, Json& config);
void finish_nemotron(const Keys& keys, Json& config);
void finish_dots1(const Keys& keys, Json& config);
void finish_llama4(const Keys& keys, Json& config);
void finish_laguna(const Keys& keys, Json& config);
void finish_mimo2(const Keys& keys, Json& config);
void finish_gemma4(const Keys& keys, Json& config);
void finish_indexed(const Keys& keys, Json& config);
void finish_kimi_linear(const Keys& keys, Json& config);
void finish_qwen_mixture(const Keys& keys, Json& config);
void finish_olmoe(const Keys& keys, Json& config);
void finish_glm4_moe(const Keys& keys, Json& config);
void finish_gpt_oss(const Keys& keys, Json& config);
void finish_deepseek(const Keys& keys, Json& config);
void finish_minimax(const Keys& keys, Json& config);
void finish_granite_hybrid(const Keys& keys, Json& config);
void finish_delta(const Keys& keys, Json& config);
void finish_lfm2(const Keys& keys, Json& config);
void finish_mamba(const Keys& keys, Json& config);
void finish_nemotron_h(const Keys& keys, Json& config);

}  // namespace plimsoll::checkpoint::gguf
