// Qwen 1, ChatGLM 2 to GLM-4 as their own classes have them, and Baichuan: q, k and v stored as one
// matrix, under the names that vLLM has too.
#include "model/decoder.h"
#include "model/families/dense/alibi.h"
#include "model/families/families.h"
#include "model/vocabulary.h"

namespace plimsoll::model {
namespace {

/// GLM's own keys and switches; the norms of both kinds have the same epsilon.
void read_glm_norms(const ConfigReader& config, Decoder& decoder) {
  const bool rms = config.boolean({"rmsnorm"}, true);
  use_layer_norms(config, decoder, "layernorm_epsilon",
                  rms ? NormTensors::weight : NormTensors::weight_and_bias);
  if (rms) decoder.norm.kind = NormKind::rms;
  if (!config.boolean({"post_layer_norm"}, true)) config.doubt("post_layer_norm", "true");
  if (config.boolean({"apply_residual_connection_post_layernorm"}, false)) {
    decoder.placement = NormPlacement::residual;
  }
}

void read_glm_sizes(const ConfigReader& config, Decoder& decoder) {
  Sizes& sizes = decoder.sizes = read_even_sizes(config);
  sizes.vocab = config.integer({"padded_vocab_size"}, sizes.vocab, kVocabularies);
  if (!config.boolean({"multi_query_attention"}, false)) return;
  sizes.kv_heads = config.integer({"multi_query_group_num"}, 1, {1, sizes.heads});
  require_even_groups(config, "multi_query_group_num", sizes.heads, sizes.kv_heads);
}

Decoder read_baichuan(const ConfigReader& config) {
  Decoder decoder{.family = "baichuan"};
  decoder.sizes = read_even_sizes(config);
  decoder.activation = read_activation(config, "hidden_act", "silu");
  decoder.norm.epsilon = static_cast<float>(config.positive({"rms_norm_eps"}, 1e-6));
  decoder.tied = config.boolean({"tie_word_embeddings"}, false);
  decoder.qkv_stored = QkvStored::fused;
  decoder.names.qkv = "W_pack";
  if (decoder.sizes.vocab % kVocabularyPadding != 0) {
    decoder.vllm.refused = "vLLM's Baichuan loads no head of a vocabulary that it has to pad";
  }
  return decoder;
}

/// Baichuan 2's head, which vLLM knows by its vocabulary, has rows of unit length.
ModelSpec build_baichuan(const Decoder& decoder) {
  constexpr int64_t kSecond = 125696;
  ModelSpec spec = build(decoder);
  if (decoder.sizes.vocab != kSecond || decoder.tied) return spec;
  for (Part& part : spec.weights[static_cast<size_t>(spec.head)].parts) {
    part.mapping = Mapping::unit_rows;
  }
  return spec;
}

}  // namespace

ModelSpec make_qwen(const ConfigReader& config) {
  Decoder decoder{.family = "qwen"};
  if (config.has("visual")) config.doubt("visual", "no such key: images are not supported yet");
  read_common(config, decoder,
              {.activation_key = "",
               .epsilon_key = "layer_norm_epsilon",
               .theta_key = config.has("rope_theta") ? "rope_theta" : "rotary_emb_base",
               .share_key = "rotary_pct"});
  decoder.sizes.kv_heads = decoder.sizes.heads;
  decoder.sizes.intermediate /= 2;  // stated of gate and up together
  decoder.qkv_stored = QkvStored::fused;
  decoder.qkv_bias = true;
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.names = {.root = "transformer",
                   .layers = "h",
                   .final_norm = "ln_f",
                   .embedding = "wte",
                   .attention = "attn",
                   .qkv = "c_attn",
                   .out = "c_proj",
                   .gate = "w2",
                   .up = "w1",
                   .down = "c_proj",
                   .attention_norm = "ln_1",
                   .mlp_norm = "ln_2"};
  return build(decoder);
}

ModelSpec make_chatglm(const ConfigReader& config) {
  Decoder decoder{.family = "chatglm"};
  if (config.has("vision_config"))
    config.doubt("vision_config", "no such key: images are not supported yet");
  read_glm_sizes(config, decoder);
  read_glm_norms(config, decoder);
  decoder.tied = config.boolean({"tie_word_embeddings"}, false);
  decoder.out_bias = decoder.mlp_bias = config.boolean({"add_bias_linear"}, false);
  decoder.qkv_bias = decoder.out_bias || config.boolean({"add_qkv_bias"}, true);
  const Sizes& sizes = decoder.sizes;
  const int64_t rotated = sizes.head_dim / 2;
  if (rotated % 2 != 0) config.doubt("num_attention_heads", "heads of four times a number");
  decoder.ropes = {
      plain_rope(config, 10000 * config.positive({"rope_ratio"}, 1), rotated, sizes.max_position)};
  if (config.boolean({"original_rope"}, true)) decoder.rope_pairs = RopePairs::neighbours;
  decoder.qkv_stored = QkvStored::fused;
  decoder.gate_up_stored = GateUpStored::fused;
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
  decoder.names = {.root = "transformer",
                   .layers = "encoder.layers",
                   .final_norm = "encoder.final_layernorm",
                   .embedding = "embedding.word_embeddings",
                   .engine_embedding = "embedding",
                   .attention = "self_attention",
                   .qkv = "query_key_value",
                   .out = "dense",
                   .down = "dense_4h_to_h",
                   .gate_up = "dense_h_to_4h"};
  ModelSpec spec = build(decoder);
  store_under({{"lm_head.", "transformer.output_layer."}}, spec);
  spec.tied_head.reset();  // vLLM looks for a head of its own under another name
  return spec;
}

// The first 7B, always with RoPE.
ModelSpec make_baichuan_7b(const ConfigReader& config) {
  Decoder decoder = read_baichuan(config);
  decoder.ropes = {read_rope(
      config, {.head_dim = decoder.sizes.head_dim, .max_position = decoder.sizes.max_position})};
  return build_baichuan(decoder);
}

// Both sizes of Baichuan 2 have this architecture: the hidden size decides between 7B, with RoPE,
// and 13B, with ALiBi.
ModelSpec make_baichuan(const ConfigReader& config) {
  constexpr int64_t kHiddenOf7b = 4096;
  if (config.required({"hidden_size"}) == kHiddenOf7b) return make_baichuan_7b(config);
  Decoder decoder = read_baichuan(config);
  decoder.alibi.emplace();
  decoder.alibi_slopes = alibi_slopes(config, decoder.sizes.heads);
  return build_baichuan(decoder);
}

}  // namespace plimsoll::model
