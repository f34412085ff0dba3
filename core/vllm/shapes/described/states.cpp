// States of recurrent mixers in place of caches, and the buffers beside them.
#include <algorithm>

#include "base/error.h"
#include "model/vllm/rank_rows.h"
#include "model/vllm/types.h"
#include "vllm/shapes/described/described_model.h"

namespace plimsoll::vllm {

namespace {

using hardware::Architecture;
using model::VllmVersion;

constexpr VllmVersion kReadsStateType{0, 13, 0};  // Nemotron-H's mamba_ssm_cache_dtype
constexpr VllmVersion kFloatStates{0, 20, 0};     // Nemotron-H's, where its config is silent

constexpr VllmVersion kConvolutionCopied{0, 12, 0};  // Mamba-2's

// Since when a prefill exports a state before its end.
constexpr VllmVersion kChannelDeltaExports{0, 29, 0};  // FlashKDA, in Kimi's classes
constexpr VllmVersion kBoundedDeltaExports{0, 32, 0};  // FlashKDA, in GLM-5.3-Flash's class
constexpr VllmVersion kMamba2Exports{0, 32, 0};
constexpr VllmVersion kGatedDeltaExports{0, 33, 0};  // FlashInfer

/// Bytes of an element of the recurrent state: `--mamba-ssm-cache-dtype`, else what the config asks
/// for, else `fallback`.
int64_t state_element(const Builder& build, int64_t fallback) {
  std::string dtype = build.options.state_dtype;
  if (dtype.empty() || dtype == "auto") dtype = build.config.text({"mamba_ssm_dtype"}, "");
  if ((dtype.empty() || dtype == "auto") && build.options.version >= kReadsStateType) {
    dtype = build.config.text({"mamba_ssm_cache_dtype"}, "");
  }
  if (dtype.empty() || dtype == "auto") return fallback;
  return dtype == "float32" ? 4 : 2;
}

/// By the card and the bound of the gate (vllm/models/kimi_k3/nvidia/kda.py:
/// is_flashkda_supported).
int64_t channel_delta_checkpoint(const Builder& build, int64_t head_size, bool always_bounded) {
  constexpr int64_t kHead = 128, kAlignment = 16;
  const ShapeOptions& options = build.options;
  const bool bounded =
      always_bounded || build.config.child({"linear_attn_config"}).has("gate_lower_bound");
  const bool able =
      options.card >= Architecture::hopper && head_size == kHead && options.element == 2 && bounded;
  const VllmVersion& since = always_bounded ? kBoundedDeltaExports : kChannelDeltaExports;
  return able && options.version >= since ? kAlignment : 0;
}

using model::RecurrentKind;
using model::RecurrentSpec;

const char* kernel_of(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::short_conv:
      return "short_conv";
    case RecurrentKind::mamba1:
      return "mamba1";
    case RecurrentKind::mamba2:
      return "mamba2";
    case RecurrentKind::gated_delta:
      return "gdn";
    case RecurrentKind::channel_delta:
      return "kda";
    case RecurrentKind::linear:
      return "lightning";
    case RecurrentKind::gated_linear:
      return "rg_lru";
  }
  return "";
}

/// FlashInfer's prefill by card (vllm/model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py:
/// _resolve_gdn_prefill_backend).
int64_t gated_delta_checkpoint(const Builder& build, const RecurrentSpec& mixer) {
  constexpr int64_t kHead = 128, kAlignment = 64;
  const ShapeOptions& options = build.options;
  if (options.version < kGatedDeltaExports || options.card < Architecture::hopper) return 0;
  return options.card == Architecture::hopper || mixer.state == kHead ? kAlignment : 0;
}

int64_t checkpoint_of(const model::ModelSpec& spec, const RecurrentSpec& mixer,
                      const Builder& build) {
  switch (mixer.kind) {
    case RecurrentKind::mamba2:
      return build.options.version >= kMamba2Exports ? 1 : 0;
    case RecurrentKind::gated_delta:
      return model::vllm_type(spec.vllm.model_type).own_prefill
                 ? 0
                 : gated_delta_checkpoint(build, mixer);
    case RecurrentKind::channel_delta:
      return channel_delta_checkpoint(build, mixer.head_dim, spec.vllm.bounded_decay);
    default:
      return 0;
  }
}

/// Bytes of a state's element where neither the config nor an argument states them.
int64_t usual_state_element(const model::ModelSpec& spec, RecurrentKind kind,
                            const ShapeOptions& options) {
  const bool floats = spec.vllm.float_states && options.version >= kFloatStates;
  return floats || kind == RecurrentKind::channel_delta ? kFloat32 : options.element;
}

/// Refuses ranks that do not divide the groups of a norm (`of_norm`), or Mamba-2's, of which a
/// single one is repeated on every rank.
void check_groups(const RecurrentSpec& mixer, bool of_norm, const RankWeights& weights) {
  if (of_norm && mixer.norm_groups % weights.ranks() != 0) {
    fail(ExitCode::usage,
         "group_norm_size ({}) must be divisible by tp_size ({}). Use another "
         "--tensor-parallel-size.",
         mixer.norm_groups, weights.ranks());
  }
  const bool cut = mixer.kind == RecurrentKind::mamba2 && mixer.groups != 1;
  if (!cut || mixer.groups % weights.ranks() == 0) return;
  fail(ExitCode::usage,
       "--tensor-parallel-size {}: the number of Mamba groups ({}) cannot be divided by it; vLLM "
       "refuses this size",
       weights.ranks(), mixer.groups);
}

/// Copies that the decoding kernel of Hopper and later cards reads (Kimi K3).
void copy_for_decoding(const RecurrentSpec& mixer, Amount heads, Builder& build) {
  if (mixer.gate_up.weight != model::kNoWeight || build.options.card < Architecture::hopper) return;
  build.weights.buffer((Amount{3} * mixer.conv.taps * heads + 1) * mixer.head_dim * kFloat32);
}

/// A rank's outputs of a weight whose parts are cut one by one.
int64_t own_outputs(const model::WeightSpec& weight, const Shares& shares) {
  return rows_on_rank(weight, model::Split::merged_column, 0, shares);
}

}  // namespace

void add_ngram_state(const model::ModelSpec& spec, const model::NgramSpec& ngrams, Builder& build) {
  // It is exported where the layers of the delta rule export theirs.
  const auto mixes = [](const model::LayerSpec& layer) { return layer.recurrent.has_value(); };
  const auto mixer = std::ranges::find_if(spec.layers, mixes);
  const bool exports =
      mixer != spec.layers.end() && checkpoint_of(spec, *mixer->recurrent, build) > 0;
  KvLayer cache;
  cache.kind = KvKind::state;
  cache.token_bytes = Amount{ngrams.held()} * ngrams.channels * build.options.element;
  cache.checkpoint = exports ? 1 : 0;
  cache.kernel = "short_conv";
  cache.replicated = true;
  build.shape.kv_layers.push_back(cache);
  build.shape.recurrent = true;
}

void add_state(const model::ModelSpec& spec, const RecurrentSpec& mixer, bool beside_attention,
               Builder& build) {
  RankWeights& weights = build.weights;
  const int64_t element = build.options.element;
  check_groups(mixer, spec.vllm.norm_groups_for_ranks, weights);
  Amount bytes = 0;
  if (mixer.conv.weight != model::kNoWeight) {
    const Amount channels =
        own_outputs(spec.weight(mixer.conv.weight), {weights, "the channels of a convolution"});
    bytes += channels * (mixer.conv.taps - 1) * element;
    if (mixer.kind == RecurrentKind::mamba2 && build.options.version >= kConvolutionCopied)
      weights.buffer(channels * mixer.conv.taps * element);
  }
  if (mixer.kind != RecurrentKind::short_conv) {
    const Amount own = weights.share(mixer.heads, "the number of heads with a state");
    const bool floats = spec.vllm.float_states || build.options.first_engine;
    const int64_t linear = floats ? kFloat32 : element;
    const int64_t size =
        mixer.kind == RecurrentKind::linear
            ? linear
            : state_element(build, usual_state_element(spec, mixer.kind, build.options));
    if (mixer.kind == RecurrentKind::channel_delta) copy_for_decoding(mixer, own, build);
    bytes += own * mixer.head_dim * std::max<int64_t>(1, mixer.state) * size;
  }
  if (beside_attention) {  // one multiplier for each output of the projection in (Falcon-H1)
    const Amount outputs =
        own_outputs(spec.weight(mixer.in.weight), {weights, "the outputs of a projection"});
    weights.buffer(outputs * element);
  }
  KvLayer cache;
  cache.kind = KvKind::state;
  cache.token_bytes = bytes;
  cache.checkpoint = checkpoint_of(spec, mixer, build);
  cache.kernel = kernel_of(mixer.kind);
  build.shape.kv_layers.push_back(cache);
  build.shape.recurrent = true;
}

}  // namespace plimsoll::vllm
