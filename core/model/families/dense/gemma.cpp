#include "model/families/dense/gemma.h"

#include <cmath>

#include "base/dtype.h"

namespace plimsoll::model {
namespace {

// Soft cap of a config: null switches it off, a config without the key means the class's.
float soft_cap(const ConfigReader& config, std::string_view key, double missing) {
  if (!config.has(key)) return static_cast<float>(missing);
  return static_cast<float>(config.positive({key}).value_or(0));
}

}  // namespace

float embedding_scale(int64_t hidden) {
  return static_cast<float>(std::sqrt(static_cast<double>(hidden)));
}

float embedding_scale_bf16(int64_t hidden) {
  return bf16_to_float(float_to_bf16(embedding_scale(hidden)));
}

void use_gemma_norms(Decoder& decoder) {
  decoder.placement = NormPlacement::sandwich;
  decoder.names.attention_post_norm = "post_attention_layernorm";
  decoder.names.mlp_norm = "pre_feedforward_layernorm";
  decoder.names.mlp_post_norm = "post_feedforward_layernorm";
}

void read_gemma_attention(const ConfigReader& config, Decoder& decoder, double soft_cap) {
  use_gemma_norms(decoder);
  decoder.embedding_scale = embedding_scale(decoder.sizes.hidden);
  decoder.attention_scale = 1;
  const double missing = config.has("final_logit_softcapping") ? 0 : soft_cap;
  decoder.final_soft_cap =
      static_cast<float>(config.positive({"final_logit_softcapping"}).value_or(missing));
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.qk_norm = true;
  decoder.v_norm = decoder.norm;
  decoder.v_norm.present = true;
  decoder.attention_order = AttentionOrder::out_between;
  decoder.scales = ScalesPlace::at_end;
  decoder.vllm.scalar_scale = true;
}

void read_gemma(const ConfigReader& config, Decoder& decoder, CommonDefaults common,
                const GemmaDefaults& defaults) {
  common.activation_key = "hidden_activation";
  read_common(config, decoder, common);
  if (config.boolean({"use_bidirectional_attention"}, false)) {
    config.doubt("use_bidirectional_attention", "false: only causal attention is supported");
  }
  const Sizes& sizes = decoder.sizes;
  use_gemma_norms(decoder);
  decoder.norm.weight_offset = 1;
  decoder.embedding_scale = embedding_scale(sizes.hidden);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.attention_scale =
      static_cast<float>(1 / std::sqrt(config.positive({"query_pre_attn_scalar"}, 256)));
  decoder.attention_soft_cap =
      soft_cap(config, "attn_logit_softcapping", defaults.attention_soft_cap);
  decoder.final_soft_cap = soft_cap(config, "final_logit_softcapping", defaults.final_soft_cap);
  decoder.windows = read_windows(
      config, sizes.layers, config.integer({"sliding_window"}, 4096),
      [period = defaults.window_period](int64_t layer) { return (layer + 1) % period != 0; });
}

}  // namespace plimsoll::model
