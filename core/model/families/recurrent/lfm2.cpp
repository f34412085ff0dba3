// LFM2: gated short convolutions, and attention in some layers.
#include <cmath>

#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// Two thirds of `block_ff_dim`, up to a multiple, as Llama's first code had it.
int64_t read_width(const ConfigReader& config, int64_t stated) {
  int64_t width = config.integer({"block_ff_dim"}, stated, kWidths);
  if (!config.boolean({"block_auto_adjust_ff_dim"}, true)) return width;
  width = 2 * width / 3;
  if (!config.has("block_ffn_dim_multiplier") || config.find({"block_ffn_dim_multiplier"})) {
    const double factor = config.positive({"block_ffn_dim_multiplier"}, 1);
    width = static_cast<int64_t>(std::floor(factor * static_cast<double>(width)));
  }
  const int64_t multiple = config.integer({"block_multiple_of"}, 256, kWidths);
  return (width + multiple - 1) / multiple * multiple;
}

/// Which layers have attention: `layer_types`, else `full_attn_idxs`, else all.
std::vector<LayerParts> read_short_parts(const ConfigReader& config, int64_t layers) {
  auto attending = read_layer_types(config, "layer_types", layers, "full_attention", "conv");
  if (!attending) attending = read_layer_list(config, "full_attn_idxs", layers);
  return attention_or_recurrent(
      attending.value_or(std::vector<bool>(static_cast<size_t>(layers), true)));
}

/// The decoder with those fields that both classes share.
Decoder read_lfm2(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  read_common(config, decoder, {.activation_key = "", .epsilon_key = "norm_eps"});
  decoder.tied = config.boolean({"tie_embedding"}, decoder.tied);  // goes before the usual key
  decoder.qk_norm = true;
  decoder.parts = read_short_parts(config, decoder.sizes.layers);
  const bool bias = config.boolean({"conv_bias"}, false);
  decoder.recurrent = RecurrentTable{
      .sizes = {.kind = RecurrentKind::short_conv,
                .conv = {.width = decoder.sizes.hidden,
                         .taps = config.integer({"conv_L_cache"}, 3, {1, kMostTaps})}},
      .module = "conv",
      .engine_module = "short_conv",
      .conv = "conv",
      .conv_bias = bias,
      .bias = bias,
      .out_bias = bias};
  if (!decoder.tied) decoder.vllm.refused = "vLLM's class ties the head to the token table always";
  decoder.tied |= config.describes();
  decoder.names.final_norm = "embedding_norm";
  decoder.names.q_norm = "q_layernorm";
  decoder.names.k_norm = "k_layernorm";
  decoder.names.out = "out_proj";
  decoder.names.mlp = "feed_forward";
  decoder.names.gate = "w1";
  decoder.names.up = "w3";
  decoder.names.down = "w2";
  decoder.names.gate_up = "w13";
  decoder.names.attention_norm = "operator_norm";
  decoder.names.mlp_norm = "ffn_norm";
  decoder.vllm.knows_stage = decoder.vllm.table_everywhere = true;
  decoder.vllm.idle_scales = true;
  return decoder;
}

}  // namespace

ModelSpec make_lfm2(const ConfigReader& config) {
  Decoder decoder = read_lfm2(config, "lfm2");
  for (const char* key : {"block_dim", "conv_dim"}) {  // the hidden size, under vLLM's names
    want_for_vllm(config, key, decoder);
    const int64_t width = decoder.sizes.hidden;
    if (config.describes() || config.integer({key}, width) == width) continue;
    decoder.vllm.refused = fmt::format("vLLM's class reads \"{}\", which is not hidden_size", key);
  }
  decoder.sizes.intermediate = read_width(config, decoder.sizes.intermediate);
  return build(decoder);
}

ModelSpec make_lfm2_moe(const ConfigReader& config) {
  Decoder decoder = read_lfm2(config, "lfm2_moe");
  const int64_t layers = decoder.sizes.layers;
  MlpSpec missing{};
  missing.intermediate = config.integer({"moe_intermediate_size"}, 1792, kWidths);
  decoder.mixture = read_mixture(config, layers, missing);
  Mixture& mixture = *decoder.mixture;
  mixture.sparse = sparse_from(layers, config.integer({"num_dense_layers"}, 2, {.least = 0}));
  mixture.sizes.router.score = RouterScore::sigmoid;
  mixture.sizes.router.normalize = config.boolean({"norm_topk_prob"}, true);
  mixture.sizes.router.epsilon = 1e-6f;
  mixture.sizes.router.factor = static_cast<float>(config.positive({"routed_scaling_factor"}, 1));
  mixture.names.router = {"feed_forward.gate", "feed_forward.gate"};
  mixture.names.experts = {"feed_forward.experts.routed_experts", "feed_forward.experts"};
  mixture.names.expert = {.gate = "w1", .up = "w3", .down = "w2"};
  if (config.boolean({"use_expert_bias"}, true)) {
    mixture.names.choice_bias = {"feed_forward.experts.routed_experts.e_score_correction_bias",
                                 "feed_forward.expert_bias"};
  }
  decoder.vllm.experts_in_stages = decoder.vllm.expert_for_ranks = true;
  decoder.vllm.quantizes_router = true;
  return build(decoder);
}

}  // namespace plimsoll::model
