// Latent attention as configs and checkpoints describe it (DeepSeek and its kin).
#pragma once

#include <string>

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// Which of vLLM's classes holds the weights: one whose modules are inside the attention's own
/// ("mla_attn"), one that has them side by side (MiniCPM 3), one that is the attention's own and
/// has its scales before them (Kimi Linear), or one that has its scales, kv_b_proj and the indexer
/// before them (DeepSeek-V3.2).
enum class LatentModules : uint8_t { within, beside, scales_first, indexed };

/// Sizes, scale and the norms' usual epsilon, values of `value_dim` where the config does not say;
/// pairs and RoPE are the caller's.
AttentionSpec read_latent(const ConfigReader& config, int64_t heads, int64_t rope,
                          int64_t value_dim = 0);

/// Adds the weights of `attention`'s latents and its output projection below `module`.
void add_latent(ModelSpec& spec, AttentionSpec& attention, const std::string& module,
                LatentModules modules);

}  // namespace plimsoll::model
