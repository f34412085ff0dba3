// Latent attention as configs and checkpoints describe it (DeepSeek and its kin).
#pragma once

#include <string>

#include "model/config_reader.h"
#include "model/model_spec.h"

namespace plimsoll::model {

/// Order of the weights in vLLM's class: modules inside the attention's own ("mla_attn"), modules
/// side by side (MiniCPM 3), the attention's own module with its scales first (Kimi Linear), or
/// with its scales, kv_b_proj and the indexer first (DeepSeek-V3.2).
enum class LatentModules : uint8_t { within, beside, scales_first, indexed };

/// Reads sizes, scale and the norms' usual epsilon; `value_dim` is the default of v's heads. The
/// caller sets pairs and RoPE.
AttentionSpec read_latent(const ConfigReader& config, int64_t heads, int64_t rope,
                          int64_t value_dim = 0);

/// Adds the weights of `attention`'s latents and its output projection below `module`.
void add_latent(ModelSpec& spec, AttentionSpec& attention, const std::string& module,
                LatentModules modules);

}  // namespace plimsoll::model
