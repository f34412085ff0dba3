// The language models that core/model does not describe, a row each: how their layers differ from a
// plain pre-norm decoder.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/config_view.h"
#include "model/config.h"
#include "model/families/family.h"

namespace plimsoll::vllm {

enum class Norm : uint8_t { rms, layer, layer_plain };  // layer: with bias; layer_plain: gain alone
enum class QkNorm : uint8_t {
  none,
  head,   // one gain per element of a head
  whole,  // gains over all heads, on every rank
};
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
  factored,          // Step-3: queries in two steps, one head of keys and values for all
  crossed,           // Whisper: attention to the tokens, then to what the encoder made of the sound
};
enum class Windows : uint8_t {
  listed,   // by `layer_types`, else none
  between,  // ModernBERT: all but the first and each n-th after it
};
enum class Experts : uint8_t {
  none,
  deepseek,
  glm,
  minimax3,  // with shared experts, and a width of its own for dense layers
  bailing,
  biased,  // a correction bias in float32 beside a router of the model's dtype (`router_bias`)
  step,
  hunyuan,  // a float32 router, and one dense layer if the config does not say
  paired,   // ERNIE-4.5-VL: experts for text and experts for images side by side
};
/// Which stages of a pipeline hold the weights outside the layers, by vLLM's class of the model.
enum class Stages : uint8_t {
  divided,   // the embedding on the first (and last, where tied), norm and head on the last
  repeated,  // all of it on every stage
};
/// Presence of a bias: never, always, or by a key of the config.
struct Bias {
  const char* key = nullptr;
  bool fallback = false;
};
inline constexpr Bias kNever{};
inline constexpr Bias kAlways{nullptr, true};
inline constexpr Bias kAttentionBias{"attention_bias", false};
inline constexpr Bias kMlpBias{"mlp_bias", false};

struct Family {
  model::Planned planned = model::Planned::none;
  bool own_head = false;  // never tied, whatever the config says
  Norm norm = Norm::rms;
  int64_t norms = 2;  // per layer, over the hidden size
  QkNorm qk_norm = QkNorm::none;
  const char* qk_norm_key = nullptr;  // a key that switches it on
  Bias qkv_bias = {};
  Bias out_bias = {};
  Bias mlp_bias = {};
  bool gated = true;        // gate and up; false: up alone
  bool plain_gate = false;  // gate and up have no bias, whatever down has
  Positions positions = Positions::rotary;
  bool tied = false;             // when the config does not say
  bool whole_embedding = false;  // neither padded nor divided over ranks, the head tied to it
  Mixer mixer = Mixer::attention;
  Windows windows = Windows::listed;
  Experts experts = Experts::none;
  Bias router_bias = {nullptr, true};  // Experts::biased, minimax3
  bool float_router = false;           // Experts::bailing, when the config does not say
  const char* mlp_name = "mlp";
  bool stored_scales = true;  // attention takes scales from quantized checkpoints
  double rotary_share = 1.0;  // of a head, when the config does not say
  bool block_index = false;   // layers that choose blocks of keys have an index (MiniMax-M3)
  bool output_gate = false;   // a gate of the attention's output for each element (Muse)
  bool positions_in_windows = false;     // layers without a window have no rotary positions
  bool paired_indexer = false;           // an indexer rotates as its attention does
  bool rotary_each = false;              // a table for each layer, enlarged for videos
  bool normed_classifier = false;        // a norm between a pooling model's head and its classes
  const char* unmodelled_key = nullptr;  // where it is above 0 the model is not known
  bool pooling = false;
  /// True for families whose experts are fp4 in checkpoints whose other weights are fp8, unless
  /// they say otherwise.
  bool fp4_experts = false;
  bool mxfp4_experts = false;  // compressed-tensors' MXFP4 is that of experts alone
  Stages stages = Stages::divided;
};

/// The rows of dense models, and of mixtures and hybrids.
std::span<const Family> dense_families();
std::span<const Family> mixed_families();

using model::is_language_model;
/// The row of an architecture that core/model does not describe, or nullptr.
const Family* find_family(std::string_view architecture);
/// The row of a config's language model.
const Family* language_row(const ConfigView& config);

}  // namespace plimsoll::vllm
