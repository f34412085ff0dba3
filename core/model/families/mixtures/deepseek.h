// What DeepSeek's families of latent attention share with others.
#pragma once

#include <cstdint>
#include <string>

#include "model/decoder.h"

namespace plimsoll::model {

/// The router's bias for the choice under vLLM's name, and the rule of choice that it is for.
inline constexpr const char* kV3Bias = "mlp.experts.gate.e_score_correction_bias";
inline constexpr const char* kBiasedMethod = "noaux_tc";

/// Sizes, latents and the RoPE of their rotated part. `even`: values are a head's share of the
/// hidden size where the config does not say.
void read_latent_decoder(const ConfigReader& config, Decoder& decoder, bool even = false);

/// V3's attention, router and stages. `dense_layers`: the first ones, where the config does not
/// say.
void use_v3(const ConfigReader& config, Decoder& decoder, int64_t dense_layers,
            const std::string& choice_bias = kV3Bias);

}  // namespace plimsoll::model
