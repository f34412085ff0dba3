// What an architecture's config.json has beside values that metadata keys state one to one.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/gguf/keys.h"

namespace plimsoll::checkpoint::gguf {

// Helpers of several architectures.

/// A whole number from 1 that must be there.
int64_t required(const Keys& keys, std::string_view key);
/// True when some layer has a tensor of this ending (".attn_q.bias").
bool has_in_layers(const Keys& keys, std::string_view ending);
bool has_experts(const Keys& keys);
/// True of routers that score experts by a sigmoid, as DeepSeek V3's.
bool scores_by_sigmoid(const Keys& keys);
/// Adds the rotated part of a head, of configs that state it as a share.
void add_rotary_share(const Keys& keys, Json& config);

/// Copies the number that `metadata` has for every layer to `config_key`; nothing where it has
/// none.
void add_by_layer(const Keys& keys, const char* metadata, const char* config_key, Json& config);

/// Adds the kinds of layers, "sliding_attention" and "full_attention": by the file's list, or by a
/// period whose last layer is full. `missing`: the period where the file has none.
void add_window_types(const Keys& keys, int64_t missing, Json& config);
/// Adds Longrope's two lists of divisors, where the file has them. `scale`: a factor of rotated q
/// and k in place of the formula's.
void add_longrope(const Keys& keys, std::optional<double> scale, Json& config);
/// States an unscaled RoPE, where transformers' class assumes a scaled one (Apertus, gpt-oss).
void state_rope(const Keys& keys, Json& config);
/// Which layers have a tensor of this ending (".ffn_gate_inp.weight").
std::vector<bool> layers_with(const Keys& keys, std::string_view ending, int64_t layers);

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
void finish_afmoe(const Keys& keys, Json& config);
void finish_chatglm(const Keys& keys, Json& config);
void finish_cohere_mixture(const Keys& keys, Json& config);
void finish_dbrx(const Keys& keys, Json& config);
void finish_deci(const Keys& keys, Json& config);
void finish_exaone(const Keys& keys, Json& config);
void finish_exaone_mixture(const Keys& keys, Json& config);
void finish_falcon_h1(const Keys& keys, Json& config);
void finish_first_deepseek(const Keys& keys, Json& config);
void finish_gemma3n(const Keys& keys, Json& config);
void finish_granite_windows(const Keys& keys, Json& config);
void finish_hy_v3(const Keys& keys, Json& config);
void finish_jais2(const Keys& keys, Json& config);
void finish_jamba(const Keys& keys, Json& config);
void finish_ling(const Keys& keys, Json& config);
void finish_llama_biases(const Keys& keys, Json& config);
void finish_mellum(const Keys& keys, Json& config);
void finish_minicpm(const Keys& keys, Json& config);
void finish_minicpm3(const Keys& keys, Json& config);
void finish_olmo2(const Keys& keys, Json& config);
void finish_phimoe(const Keys& keys, Json& config);
void finish_plamo3(const Keys& keys, Json& config);
void finish_starcoder(const Keys& keys, Json& config);
void finish_nemotron_h(const Keys& keys, Json& config);

}  // namespace plimsoll::checkpoint::gguf
