// Each architecture as one row: in what its layers differ from a plain pre-norm decoder.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace plimsoll::plan {

enum class Norm : uint8_t { rms, layer, layer_plain };  // layer: with bias; layer_plain: gain alone
enum class QkNorm : uint8_t {
  none,
  head,   // one gain per element of a head
  heads,  // a gain for each head of this rank
  whole,  // gains over all heads, on every rank
  share,  // gains over this rank's heads
};
enum class Positions : uint8_t {
  rotary,
  learned,
  none,
  stated,       // rotary where `position_embedding_type` says "rope"
  where_theta,  // rotary where a base is given
};
/// The layers' mixing of tokens.
enum class Mixer : uint8_t {
  attention,
  latent,         // DeepSeek's multi-head latent attention
  latent_twice,   // LongCat: twice in a layer, each with a feed-forward, and experts across them
  delta,          // Qwen3-Next: gated delta rule, and attention with an output gate
  delta_split,    // Qwen3.5: likewise, other order of projections
  delta_plain,    // OLMo-Hybrid: likewise, attention without a gate
  kimi_delta,     // Kimi-Linear: per-channel gates, and latent attention
  kimi_delta3,    // Kimi-K3
  kimi_groups,    // Ling 3: Kimi's delta rule, and latent attention in the last layer of each group
  mamba_pattern,  // Nemotron-H: one mixer per layer by a pattern of letters
  mamba_layers,   // layers listed as mamba or attention (Granite 4, Bamba, Jamba)
  mamba_shared,   // Mamba-2, in some layers after attention blocks that layers share (Zamba2)
  mamba_beside,   // Mamba-2 and attention side by side in every layer (Falcon-H1)
  mamba1_alone,   // nothing but Mamba layers, without a feed-forward
  mamba2_alone,
  lightning,         // MiniMax-Text: lightning attention in most layers
  lightning_groups,  // Ling 2.5: likewise, and latent attention in the last layer of each group
  conv,              // LFM2: short convolutions
  gemma4,            // two kinds of heads, shared keys and values, per-layer inputs
  compressed,        // DeepSeek-V4
  expanded,          // latent projections whose keys and values are cached whole (MiniCPM3)
  factored,          // Step-3: queries in two steps, one head of keys and values for all
  crossed,           // Whisper: attention to the tokens, then to what the encoder made of the sound
  blocks,            // sizes of each layer by `block_configs` (Nemotron-NAS)
};
enum class Windows : uint8_t {
  listed,       // by `layer_types`, else none
  every,        // all layers, where `sliding_window` is set
  alternate,    // even layers (Gemma 2, gpt-oss)
  pattern,      // all but each n-th (Gemma 3: `sliding_window_pattern`, default 6)
  chunked,      // Llama 4: chunks in the layers with rotary positions
  hybrid_list,  // MiMo-V2: `hybrid_layer_pattern`
  between,      // ModernBERT: all but the first and each n-th after it
};
enum class Experts : uint8_t {
  none,
  mixtral,
  qwen,
  deepseek,
  glm,
  gpt_oss,
  llama4,
  granite,
  minimax,
  minimax3,  // with shared experts, and a width of its own for dense layers
  laguna,
  bailing,
  ernie,
  biased,  // a correction bias in float32 beside a router of the model's dtype (`router_bias`)
  sarvam,  // likewise, and one shared expert if the config does not say
  step,
  cohere,
  hunyuan,
  longcat,  // some experts do nothing: they have a place in the router alone
  paired,   // ERNIE-4.5-VL: experts for text and experts for images side by side
};
/// Which stages of a pipeline hold what stands outside the layers, by vLLM's class of the model.
enum class Stages : uint8_t {
  divided,        // the embedding on the first (and last, where tied), norm and head on the last
  repeated,       // all of it on every stage
  norm_at_end,    // the norm on the last, the rest on every stage (Qwen3-Next)
  output_at_end,  // norm and head on the last, the embedding on every stage (Qwen3.5)
};
/// Where a bias is: never, always, or as a key of the config says.
struct Bias {
  const char* key = nullptr;
  bool fallback = false;
  const char* other = nullptr;    // where either of the two is on
  const char* decides = nullptr;  // alone, in a config that has it
};
inline constexpr Bias kNever{};
inline constexpr Bias kAlways{nullptr, true};
inline constexpr Bias kAttentionBias{"attention_bias", false};
inline constexpr Bias kEitherBias{"attention_bias", false, "bias"};
inline constexpr Bias kLlamaBias{"attention_bias", false, "bias", "qkv_bias"};
inline constexpr Bias kMlpBias{"mlp_bias", false};

struct Family {
  std::string_view architecture;
  Norm norm = Norm::rms;
  int64_t norms = 2;                // per layer, over the hidden size
  const char* norms_key = nullptr;  // a flag that adds two more
  QkNorm qk_norm = QkNorm::none;
  const char* qk_norm_key = nullptr;  // a key that switches it on
  Bias qkv_bias = {};
  Bias out_bias = {};
  Bias mlp_bias = {};
  bool down_bias = false;  // of the MLP's last projection alone
  Bias lm_head_bias = {};
  bool gated = true;        // gate and up; false: up alone
  bool plain_gate = false;  // gate and up have no bias, whatever down has
  bool mlp_split = true;    // over ranks; false: whole on each, for want of a tensor-parallel plan
  Positions positions = Positions::rotary;
  int64_t extra_positions = 0;   // rows of the learned table beyond the context (OPT: 2)
  bool tied = false;             // when the config does not say
  bool whole_embedding = false;  // neither padded nor divided over ranks, the head tied to it
  bool embedding_norm = false;   // a norm right after the embedding (Bloom)
  bool embedding_scale = false;  // a scalar buffer (Gemma)
  Mixer mixer = Mixer::attention;
  Windows windows = Windows::listed;
  Experts experts = Experts::none;
  Bias router_bias = {nullptr, true};        // Experts::biased, sarvam, minimax3
  bool float_router = false;                 // Experts::bailing, when the config does not say
  bool quantized_router = false;             // the router is a linear layer like others
  const char* attention_name = "self_attn";  // modules as quantization configs name them
  const char* mlp_name = "mlp";
  bool stored_scales = true;  // attention takes scales from quantized checkpoints
  double rotary_share = 1.0;  // of a head, when the config does not say
  bool listed_sinks = false;  // a sink for each head where layers' kinds are listed
  bool block_index = false;   // layers that choose blocks of keys have an index (MiniMax-M3)
  bool output_gate = false;   // a gate of the attention's output for each element (Muse)
  bool positions_in_windows = false;  // layers without a window have no rotary positions
  int64_t activation_scalars = 0;   // of a learned activation: so many parameters and buffers each
  bool both_widths = false;         // the stated width is of gate and up together
  bool usual_width = false;         // four times the hidden size, whatever width is stated
  int64_t window_period = 6;        // Windows::pattern, when the config does not say
  bool own_besides_window = false;  // a window of n tokens is of n others
  bool plain_in_windows = false;    // layers with a window do not scale positions
  bool windows_in_all = false;      // `max_window_layers` that leave some out are refused
  bool small_rotary = false;        // rotary at a hidden size of 4096, else linear biases
  bool parallel_norm = false;       // one norm for attention and MLP where `parallel_attn` says so
  bool mamba1 = false;              // the Mamba layers of a mixed model are of the first kind
  bool alternating = false;         // updates of one stream of several in turn (Gemma 3n)
  bool float_rotary = false;        // latent attention's table in float32, scaled or not
  const char* rotary_length = nullptr;  // key of the table's length, where it is a model's own
  bool counted_positions =
      false;                    // in time, height and width they never exceed the count of tokens
  bool rotary_each = false;     // a table for each layer, enlarged for videos
  bool rotary_by_type = false;  // frequencies for each kind of layer
  bool normed_classifier = false;        // a norm between a pooling model's head and its classes
  const char* unmodelled_key = nullptr;  // where it is above 0 the model is not known
  bool generic = false;  // runs in vLLM's generic backend over transformers' own modules
  bool pooling = false;
  Stages stages = Stages::divided;
};

/// The rows of dense models, and of mixtures and hybrids.
std::span<const Family> dense_families();
std::span<const Family> mixed_families();

/// The row of an architecture, or nullptr.
const Family* find_family(std::string_view architecture);

}  // namespace plimsoll::plan
