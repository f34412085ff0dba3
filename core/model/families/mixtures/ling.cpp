// Ling 1 and 2 with Sarvam's smaller mixture (BailingMoE), and Param2.
#include "model/families/mixtures/ling.h"

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

Mixture read_ling_mixture(const ConfigReader& config, int64_t layers,
                          const LingDefaults& defaults) {
  const MlpSpec missing{.intermediate = config.required({"moe_intermediate_size"}, kWidths)};
  Mixture mixture = read_mixture(config, layers, missing);
  RouterSpec& router = mixture.sizes.router;
  router.normalize = config.boolean({"norm_topk_prob"}, true);
  router.epsilon = 1e-20f;
  router.factor = static_cast<float>(config.positive({"routed_scaling_factor"}, defaults.factor));
  const std::string score = config.text({"score_function"}, defaults.score);
  if (score == "sigmoid") {
    router.score = RouterScore::sigmoid;
  } else if (score != "softmax") {
    config.doubt("score_function", "softmax or sigmoid");
  }
  const bool biased = config.boolean({"moe_router_enable_expert_bias"}, defaults.biased);
  if (biased) {
    mixture.names.choice_bias = {kChoiceBias, "mlp.gate.expert_bias"};
  }
  if (config.find({"n_group"}) != nullptr && config.find({"topk_group"}) != nullptr) {
    read_groups(config, mixture, biased ? GroupScore::two_best : GroupScore::best);
  }
  const auto stated = config.integer({"moe_shared_expert_intermediate_size"}, kWidths);
  const int64_t shared = config.integer({"num_shared_experts"}, defaults.shared, {0, kMostExperts});
  const int64_t width = stated.value_or(mixture.sizes.intermediate);
  const bool together = defaults.together && stated && shared > 0;
  mixture.sizes.shared.intermediate = together ? width : shared * width;
  mixture.sparse =
      sparse_from(layers, config.integer({"first_k_dense_replace"}, defaults.dense, {.least = 0}));
  return mixture;
}

namespace {

void read_ling_decoder(const ConfigReader& config, Decoder& decoder) {
  read_with_columns(config, decoder);
  decoder.qk_norm = config.boolean({"use_qk_norm"}, false);
  decoder.qkv_stored = QkvStored::fused;
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
}

}  // namespace

ModelSpec make_bailing_moe(const ConfigReader& config) {
  Decoder decoder{.family = "bailing_moe"};
  read_ling_decoder(config, decoder);
  decoder.out_bias = decoder.mlp_bias = config.boolean({"use_bias"}, false);
  if (decoder.out_bias) config.doubt("use_bias", "false");  // shared experts would have them too
  decoder.qkv_bias = decoder.out_bias || config.boolean({"use_qkv_bias"}, false);
  const bool layer_norms = !config.boolean({"use_rmsnorm"}, false);  // of q and k
  if (layer_norms) {
    decoder.head_norm.kind = NormKind::layer;
    decoder.head_norm.tensors = NormTensors::weight_and_bias;
  }
  decoder.attention_order = AttentionOrder::norms_before_out;
  DecoderNames& names = decoder.names;
  names.embedding = "word_embeddings";
  names.attention = "attention";
  names.qkv = "query_key_value";
  names.out = "dense";
  names.q_norm = "query_layernorm";
  names.k_norm = "key_layernorm";
  for (const char* key : {"norm_head", "norm_softmax", "multi_gate"}) {
    if (config.boolean({key}, false)) config.doubt(key, "false");
  }
  decoder.mixture = read_ling_mixture(
      config, decoder.sizes.layers, {.score = "softmax", .biased = false, .shared = 0, .dense = 0});
  Mixture& mixture = *decoder.mixture;
  const bool biased = !mixture.names.choice_bias.engine.empty();
  const bool sigmoid = mixture.sizes.router.score == RouterScore::sigmoid;
  if (config.find({"score_function"}) != nullptr && sigmoid != biased) {
    config.refuse("score_function", biased
                                        ? "sigmoid, which moe_router_enable_expert_bias goes with"
                                        : "softmax, or moe_router_enable_expert_bias");
  }
  if (config.has("router_dtype")) {  // vLLM takes any other text for bfloat16
    mixture.router_dtype = config.text({"router_dtype"}, "") == "fp32" ? DType::f32 : DType::bf16;
  }
  decoder.vllm.knows_stage = decoder.vllm.idle_scales = true;
  ModelSpec spec = build(decoder);
  constexpr float kLayerNormEpsilon = 1e-6f;  // not in the config
  for (LayerSpec& layer : spec.layers) {
    if (!layer_norms) break;
    layer.attention.q_norm.epsilon = layer.attention.k_norm.epsilon = kLayerNormEpsilon;
  }
  return spec;
}

ModelSpec make_param2_moe(const ConfigReader& config) {
  Decoder decoder{.family = "param2moe"};
  read_ling_decoder(config, decoder);
  decoder.qkv_bias = config.boolean({"use_qkv_bias"}, false);
  decoder.out_bias = config.boolean({"use_bias"}, false);
  decoder.names.embedding = "word_embeddings";
  decoder.names.engine_embedding = "embed_tokens";
  decoder.names.q_norm = "q_layernorm";
  decoder.names.k_norm = "k_layernorm";
  decoder.mixture = read_ling_mixture(config, decoder.sizes.layers, {.together = true});
  Mixture& mixture = *decoder.mixture;
  mixture.router_dtype = DType::f32;
  mixture.bias_mapping = Mapping::less_mean;
  decoder.vllm.knows_stage = decoder.vllm.experts_in_stages = true;
  decoder.vllm.kv_head_for_ranks = true;
  ModelSpec spec = build(decoder);
  store_under({{".self_attn.qkv_proj.", ".attention.query_key_value."},
               {".self_attn.o_proj.", ".attention.dense."},
               {".self_attn.q_layernorm.", ".attention.query_layernorm."},
               {".self_attn.k_layernorm.", ".attention.key_layernorm."}},
              spec);
  return spec;
}

}  // namespace plimsoll::model
