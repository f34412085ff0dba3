// Readers that DeepSeek's families of latent attention share with others.
#pragma once

#include <cstdint>
#include <string>

#include "model/decoder.h"

namespace plimsoll::model {

/// vLLM's name of the router's bias for the choice, and the `topk_method` that uses it.
inline constexpr const char* kV3Bias = "mlp.experts.gate.e_score_correction_bias";
inline constexpr const char* kBiasedMethod = "noaux_tc";

/// Reads sizes, latents and the RoPE of their rotated part. `even`: where the config states no
/// value_dim, it is a head's share of the hidden size.
void read_latent_decoder(const ConfigReader& config, Decoder& decoder, bool even = false);

/// Reads sizes and latents of attention without RoPE. Their rotated part may be empty.
void read_unrotated_latents(const ConfigReader& config, Decoder& decoder);

/// Reads an indexer, which has `heads` heads where the config has no number. `interleave`: whether
/// transformers' class rotates pairs of neighbours where the config does not say.
void read_indexer(const ConfigReader& config, Decoder& decoder, int64_t heads, bool interleave);

/// Sets V3's attention, router and stages. `dense_layers`: default number of dense layers at the
/// beginning.
void use_v3(const ConfigReader& config, Decoder& decoder, int64_t dense_layers,
            const std::string& choice_bias = kV3Bias);

}  // namespace plimsoll::model
