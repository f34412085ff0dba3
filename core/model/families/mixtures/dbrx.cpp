// DBRX: q, k and v clamped, experts stored flat, a config of nested objects.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

Mixture read_dbrx_mixture(const ConfigReader& config, const Sizes& sizes) {
  const ConfigReader experts = config.object_or_empty("ffn_config");
  if (experts.object_or_empty("ffn_act_fn").text({"name"}, "silu") != "silu") {
    config.refuse("ffn_config", "an object with the activation silu");
  }

  Mixture mixture;
  mixture.sizes.intermediate = experts.integer({"ffn_hidden_size"}, 3584, kWidths);
  mixture.sizes.experts = experts.integer({"moe_num_experts"}, 4, {1, kMostExperts});
  mixture.sizes.experts_per_token = experts.integer({"moe_top_k"}, 1, {1, mixture.sizes.experts});
  mixture.sparse.assign(static_cast<size_t>(sizes.layers), true);
  // The order of the norm that weights are divided by.
  const Json* order = experts.find({"moe_normalize_expert_weights"});
  const bool stated = experts.has("moe_normalize_expert_weights");
  mixture.sizes.router.normalize = order != nullptr || !stated;
  if (order != nullptr && *order != 1) {
    experts.doubt("moe_normalize_expert_weights", "1 or null");
  }
  mixture.stored = ExpertsStored::flat;
  mixture.names.router = {"ffn.router.layer", "ffn.router.layer"};
  mixture.names.experts = {"ffn.experts.routed_experts", "ffn.experts.mlp"};
  mixture.names.expert = {.gate = "w1", .up = "v1", .down = "w2"};
  return mixture;
}

}  // namespace

ModelSpec make_dbrx(const ConfigReader& config) {
  const ConfigReader attention = config.object_or_empty("attn_config");
  Decoder decoder{.family = "dbrx"};
  decoder.sizes = read_even_sizes(config);
  Sizes& sizes = decoder.sizes;
  sizes.kv_heads = attention.integer({"kv_n_heads"}, 1, {1, sizes.heads});
  if (sizes.heads % sizes.kv_heads != 0) {
    attention.refuse("kv_n_heads", fmt::format("a divisor of n_heads ({})", sizes.heads));
  }
  // Older configs have the base with the attention, those of transformers 5 the whole RoPE outside.
  decoder.ropes = {read_rope(config, {.head_dim = sizes.head_dim,
                                      .max_position = sizes.max_position,
                                      .theta = attention.positive({"rope_theta"}, 10000)})};
  decoder.clamp = static_cast<float>(attention.positive({"clip_qkv"}, 0));
  use_layer_norms(config, decoder, "layer_norm_epsilon", NormTensors::weight);
  decoder.norm.epsilon = 1e-5f;  // torch's own: configs do not state it
  decoder.tied = config.boolean({"tie_word_embeddings"}, false);
  decoder.mixture = read_dbrx_mixture(config, sizes);
  DecoderNames& names = decoder.names;
  names.root = "transformer";
  names.layers = "blocks";
  names.embedding = "wte";
  names.final_norm = "norm_f";
  names.attention = "norm_attn_norm.attn";
  names.qkv = "Wqkv";
  names.out = "out_proj";
  names.attention_norm = "norm_attn_norm.norm_1";
  names.mlp_norm = "norm_attn_norm.norm_2";
  decoder.qkv_stored = QkvStored::fused;
  decoder.vllm.refused = "vLLM 0.32 fails to load DBRX";
  return build(decoder);
}

}  // namespace plimsoll::model
