// Kin of Llama whose classes of configs and models come with their checkpoints: InternLM, Orion,
// TeleChat 2, EXAONE 3, MiniCPM (with experts too), openPangu Embedded, Tele-FLM, Step 1 and MiMo.
// Defaults are those of these classes.
#include <cmath>

#include "model/decoder.h"
#include "model/families/dense/alibi.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// Llama under another name of its class, which may have a base of its own for RoPE.
Decoder read_llama(const ConfigReader& config, const char* family, double theta = 10000) {
  Decoder decoder{.family = family};
  read_common(config, decoder, {.theta = theta});
  decoder.vllm.knows_stage = true;
  return decoder;
}

float factor(const ConfigReader& config, std::string_view key) {
  return static_cast<float>(config.positive({key}, 1));
}

/// Experts of MiniCPM-MoE, in every layer; vLLM's class keeps their weights itself.
Mixture minicpm_mixture(const ConfigReader& config, const Sizes& sizes) {
  Mixture mixture = read_mixture(config, sizes.layers,
                                 {.intermediate = sizes.intermediate, .experts_per_token = 2});
  MixtureNames& names = mixture.names;
  names.experts = {"mlp", "mlp.experts"};
  names.expert = {.gate = "w1", .up = "w3", .down = "w2"};
  names.up_weight = "ws";
  names.down_weight = "w2s";
  names.order = {MixturePart::experts, MixturePart::router};
  return mixture;
}

}  // namespace

ModelSpec make_internlm(const ConfigReader& config) {
  const double base = config.object_or_empty("rotary").positive({"base"}, 10000);
  Decoder decoder = read_llama(config, "internlm", base);
  read_llama_biases(config, decoder, true);
  return build(decoder);
}

ModelSpec make_orion(const ConfigReader& config) {
  Decoder decoder{.family = "orion"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "rms_norm_eps", NormTensors::weight_and_bias);
  return build(decoder);
}

ModelSpec make_telechat2(const ConfigReader& config) {
  Decoder decoder{.family = "telechat2"};
  read_common(config, decoder, {.epsilon = 1e-5, .epsilon_key = "layer_norm_epsilon"});
  for (const char* key : {"embed_layernorm", "apply_residual_connection_post_layernorm"}) {
    if (config.boolean({key}, false)) config.doubt(key, "false");
  }
  // Rows of vLLM's rotary table; its class reads no other key.
  decoder.ropes.front().spec.vllm.positions = config.integer({"max_position_embeddings"}, 8192);
  decoder.qkv_stored = QkvStored::paired_keys;
  decoder.out_bias = decoder.down_bias = true;
  decoder.vllm.knows_stage = true;
  ModelSpec spec = build(decoder);
  store_under({{"model.layers.", "transformer.h."},
               {".self_attn.o_proj.", ".self_attn.dense."},
               {".self_attn.", ".self_attention."},
               {"model.embed_tokens.", "transformer.word_embeddings."},
               {"model.norm.", "transformer.ln_f."}},
              spec);
  return spec;
}

ModelSpec make_exaone(const ConfigReader& config) {
  Decoder decoder{.family = "exaone"};
  read_common(config, decoder,
              {.epsilon = 1e-5,
               .activation_key = "activation_function",
               .epsilon_key = "layer_norm_epsilon"});
  read_llama_biases(config, decoder);
  decoder.logits_scale = factor(config, "logit_scale");
  decoder.names.root = "transformer";
  decoder.names.layers = "h";
  decoder.names.embedding = "wte";
  decoder.names.attention = "attn.attention";
  decoder.names.out = "out_proj";
  decoder.names.gate = "c_fc_0";
  decoder.names.up = "c_fc_1";
  decoder.names.down = "c_proj";
  decoder.names.attention_norm = "ln_1";
  decoder.names.mlp_norm = "ln_2";
  decoder.names.final_norm = "ln_f";
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_minicpm(const ConfigReader& config) {
  Decoder decoder{.family = "minicpm"};
  read_common(config, decoder);
  const Sizes& sizes = decoder.sizes;
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  if (config.integer({"num_experts"}, 0, {.least = 0}) > 0) {
    decoder.mixture = minicpm_mixture(config, sizes);
  }
  decoder.embedding_scale = factor(config, "scale_emb");
  decoder.branch_factor = static_cast<float>(config.positive({"scale_depth"}, 1) /
                                             std::sqrt(static_cast<double>(sizes.layers)));
  decoder.logits_scale = static_cast<float>(config.positive({"dim_model_base"}, 1) /
                                            static_cast<double>(sizes.hidden));
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp_norm,
                   LayerPart::mlp};
  return build(decoder);
}

ModelSpec make_pangu_embedded(const ConfigReader& config) {
  Decoder decoder = read_llama(config, "pangu_embedded");
  read_llama_biases(config, decoder);
  if (!config.boolean({"is_causal"}, true)) config.doubt("is_causal", "true");
  decoder.windows = listed_windows(config, "interleaved_sliding_window", decoder.sizes.layers);
  return build(decoder);
}

// vLLM's class does not scale the embeddings.
ModelSpec make_teleflm(const ConfigReader& config) {
  Decoder decoder = read_llama(config, "teleflm");
  read_llama_biases(config, decoder);
  if (config.boolean({"use_mup"}, false)) {
    if (config.positive({"input_mult"}, 1) != 1) config.doubt("input_mult", "1");
    decoder.logits_scale = static_cast<float>(config.positive({"output_mult"}, 1) /
                                              config.positive({"mup_scale_factor"}, 1));
  }
  return build(decoder);
}

// Without RoPE; ALiBi by the root of distances.
ModelSpec make_step1(const ConfigReader& config) {
  Decoder decoder{.family = "step1"};
  read_without_positions(config, decoder, {.activation_key = ""});
  Sizes& sizes = decoder.sizes;
  sizes.kv_heads = config.integer({"num_attention_groups", "num_key_value_heads"}, 1, kHeadCounts);
  require_even_groups(config, "num_attention_groups", sizes.heads, sizes.kv_heads);
  sizes.head_dim = sizes.hidden / sizes.heads;  // whatever head_dim says
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.alibi = {.of = Alibi::Of::root};
  decoder.alibi_slopes = alibi_slopes(config, sizes.heads);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

// Qwen2 with layers that predict further tokens, which nothing here reads.
ModelSpec make_mimo(const ConfigReader& config) {
  ModelSpec spec = make_qwen2(config);
  spec.family = "mimo";
  spec.ignored_prefixes.emplace_back("model.mtp_layers.");
  return spec;
}

}  // namespace plimsoll::model
