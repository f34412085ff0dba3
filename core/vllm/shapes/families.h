// The language models that core/model does not describe, a row each: how their layers differ from a
// plain pre-norm decoder.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/config_view.h"
#include "model/config.h"
#include "model/families/family.h"

namespace plimsoll::vllm {

enum class Norm : uint8_t { rms, layer };  // layer: with bias
enum class Positions : uint8_t { rotary, learned };
/// How the layers mix tokens.
enum class Mixer : uint8_t {
  attention,
  gated_latent,  // latent attention with a gate of its output, sinks, and mixed residual streams
                 // (HY V4)
  kimi_delta,    // Kimi-K3: per-channel gates, and latent attention
  kimi_groups,   // Ling 3: Kimi's delta rule, and latent attention in the last layer of each group
  lightning_groups,  // Ling 2.5: lightning and, last in each group of layers, latent attention
  compressed,        // DeepSeek-V4
  crossed,           // Whisper: attention to the tokens, then to what the encoder made of the sound
};
enum class Experts : uint8_t {
  none,
  deepseek,
  glm,
  bailing,
  hunyuan,  // a float32 router, and one dense layer if the config does not say
  paired,   // ERNIE-4.5-VL: experts for text and experts for images side by side
};
/// Presence of a bias: never, always, or by a key of the config.
struct Bias {
  const char* key = nullptr;
  bool fallback = false;
};
inline constexpr Bias kAlways{nullptr, true};

struct Family {
  model::Planned planned = model::Planned::none;
  bool own_head = false;  // never tied, whatever the config says
  Norm norm = Norm::rms;
  int64_t norms = 2;  // per layer, over the hidden size
  Bias qkv_bias = {};
  Bias out_bias = {};
  Bias mlp_bias = {};
  bool gated = true;  // gate and up; false: up alone
  Positions positions = Positions::rotary;
  bool tied = false;             // when the config does not say
  bool whole_embedding = false;  // neither padded nor divided over ranks, the head tied to it
  Mixer mixer = Mixer::attention;
  Experts experts = Experts::none;
  bool float_router = false;    // Experts::bailing, when the config does not say
  bool paired_indexer = false;  // an indexer rotates as its attention does
  bool rotary_each = false;     // a table for each layer, enlarged for videos
  /// True for families whose experts are fp4 in checkpoints whose other weights are fp8, unless
  /// they say otherwise.
  bool fp4_experts = false;
  bool mxfp4_experts = false;  // compressed-tensors' MXFP4 is that of experts alone
};

using model::is_language_model;
/// The row of an architecture that core/model does not describe, or nullptr.
const Family* find_family(std::string_view architecture);
/// The row of a config's language model.
const Family* language_row(const ConfigView& config);

}  // namespace plimsoll::vllm
