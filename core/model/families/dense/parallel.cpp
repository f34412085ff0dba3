// Attention and MLP side by side.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

void set_parallel_with_one_norm(Decoder& decoder) {
  decoder.placement = NormPlacement::parallel;
  decoder.names.mlp_norm = "";
}

Decoder read_cohere(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "layer_norm_eps", NormTensors::weight);
  set_parallel_with_one_norm(decoder);
  read_plain_attention_biases(config, decoder);
  decoder.rope_pairs = RopePairs::neighbours;
  decoder.logits_scale = static_cast<float>(config.positive({"logit_scale"}, 0.0625));
  decoder.names.tied_embedding = "model.embed_tokens";  // vLLM's class has no lm_head
  decoder.vllm.own_besides_window = true;
  RotaryRows& rows = decoder.ropes.front().spec.vllm;
  if (rows.positions == decoder.sizes.max_position) {
    rows.positions = config.integer({"model_max_length"}, rows.positions);
  }
  return decoder;
}

/// vLLM's class takes the token table for the head, whatever config and checkpoint hold.
ModelSpec build_cohere(const Decoder& decoder) {
  ModelSpec spec = build(decoder);
  if (!decoder.tied) spec.weights[static_cast<size_t>(spec.head)].kept = Kept::in_run;
  return spec;
}

// Layers with a window rotate, the others see everything without positions.
void use_cohere_windows(const ConfigReader& config, Decoder& decoder) {
  const int64_t period = config.integer({"sliding_window_pattern"}, 4, {1, 4096});
  decoder.windows =
      read_windows(config, decoder.sizes.layers, config.integer({"sliding_window"}, 4096),
                   [period](int64_t layer) { return (layer + 1) % period != 0; });
  for (const int64_t window : decoder.windows) decoder.layer_ropes.push_back(window > 0 ? 0 : -1);
  decoder.vllm.rotary_in_all = true;
}

// GPT-J and CodeGen.
Decoder read_gptj(const ConfigReader& config, const char* family) {
  Decoder decoder{.family = family};
  decoder.sizes = read_fourfold_sizes(config);
  const Sizes& sizes = decoder.sizes;
  decoder.activation = read_activation(config, "activation_function", "gelu_new");
  decoder.tied = config.boolean({"tie_word_embeddings"}, false);
  const int64_t rotary = config.integer({"rotary_dim"}, 64, {2, sizes.head_dim});
  if (rotary % 2 != 0) config.doubt("rotary_dim", "an even number");
  decoder.ropes = {plain_rope(config, 10000, rotary, sizes.max_position)};
  decoder.rope_pairs = RopePairs::neighbours;
  use_layer_norms(config, decoder, "layer_norm_epsilon", NormTensors::weight_and_bias);
  set_parallel_with_one_norm(decoder);
  decoder.mlp_kind = MlpKind::plain;
  decoder.mlp_bias = decoder.head_bias = true;
  decoder.order = {LayerPart::attention_norm, LayerPart::attention, LayerPart::mlp};
  decoder.names.root = "transformer";
  decoder.names.layers = "h";
  decoder.names.embedding = "wte";
  decoder.names.attention = "attn";
  decoder.names.out = "out_proj";
  decoder.names.up = "fc_in";
  decoder.names.down = "fc_out";
  decoder.names.attention_norm = "ln_1";
  decoder.names.final_norm = "ln_f";
  decoder.ignored = {".attn.masked_bias", ".attn.causal_mask"};
  return decoder;
}

}  // namespace

ModelSpec make_cohere(const ConfigReader& config) {
  Decoder decoder = read_cohere(config, "cohere");
  decoder.qk_norm = config.boolean({"use_qk_norm"}, false);
  decoder.head_norm = {.kind = NormKind::layer, .weights = HeadNormStyle::Weights::own};
  return build_cohere(decoder);
}

ModelSpec make_cohere2(const ConfigReader& config) {
  Decoder decoder = read_cohere(config, "cohere2");
  use_cohere_windows(config, decoder);
  return build_cohere(decoder);
}

ModelSpec make_cohere2_moe(const ConfigReader& config) {
  Decoder decoder = read_cohere(config, "cohere2_moe");
  if (const auto epsilon = config.positive({"rms_norm_eps"})) {
    decoder.norm = {.epsilon = static_cast<float>(*epsilon)};
  }
  use_cohere_windows(config, decoder);
  MlpSpec missing{};
  missing.intermediate = decoder.sizes.intermediate;
  const int64_t layers = decoder.sizes.layers;
  decoder.mixture = read_mixture(config, layers, missing);
  Mixture& mixture = *decoder.mixture;
  const int64_t dense = config.integer({"first_k_dense_replace"}, 0, {0, layers});
  mixture.sparse = sparse_by_types(config, "mlp_layer_types", sparse_from(layers, dense));
  if (config.text({"expert_selection_fn"}, "softmax") != "softmax") {
    config.doubt("expert_selection_fn", "softmax");
  }
  mixture.sizes.shared.intermediate =
      config.integer({"num_shared_experts"}, 0, {0, kMostExperts}) * missing.intermediate;
  const std::string combined = config.text({"shared_expert_combination_strategy"}, "average");
  if (combined != "average" && combined != "sum") {
    config.doubt("shared_expert_combination_strategy", "average or sum");
  }
  if (combined == "average" && mixture.sizes.shared.intermediate > 0) {
    mixture.sizes.router.factor = mixture.sizes.shared.factor = 0.5f;
  }
  decoder.sizes.intermediate =
      config.integer({"prefix_dense_intermediate_size"}, missing.intermediate, kWidths);
  return build_cohere(decoder);
}

ModelSpec make_gptj(const ConfigReader& config) {
  Decoder decoder = read_gptj(config, "gptj");
  if (decoder.tied) decoder.vllm.refused = "vLLM's class refuses a head that is the token table";
  return build(decoder);
}

ModelSpec make_codegen(const ConfigReader& config) {
  Decoder decoder = read_gptj(config, "codegen");
  if (decoder.sizes.heads % 4 != 0) config.refuse("n_head", "a multiple of 4");
  decoder.qkv_stored = QkvStored::quarters;
  decoder.vllm.refused = "vLLM has no class for CodeGen";
  return build(decoder);
}

ModelSpec make_gpt_neox(const ConfigReader& config) {
  Decoder decoder{.family = "gpt_neox"};
  read_common(config, decoder,
              {.theta_key = "rotary_emb_base", .share_key = "rotary_pct", .share = 0.25});
  use_layer_norms(config, decoder, "layer_norm_eps", NormTensors::weight_and_bias);
  if (config.boolean({"use_parallel_residual"}, true)) decoder.placement = NormPlacement::parallel;
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, true);
  decoder.mlp_bias = true;
  decoder.mlp_kind = MlpKind::plain;
  decoder.qkv_stored = QkvStored::grouped;
  decoder.order = {LayerPart::attention_norm, LayerPart::mlp_norm, LayerPart::attention,
                   LayerPart::mlp};
  decoder.names.embedding = "embed_in";
  decoder.names.attention = "attention";
  decoder.names.qkv = "query_key_value";
  decoder.names.out = "dense";
  decoder.names.up = "dense_h_to_4h";
  decoder.names.down = "dense_4h_to_h";
  decoder.names.final_norm = "final_layer_norm";
  decoder.spellings = {{"model.", "gpt_neox."}, {"lm_head.", "embed_out."}};
  decoder.ignored = {".attention.masked_bias"};
  decoder.interleaved = InterleavedCut::in_place;
  decoder.qkv_split = Split::column;
  decoder.scales = ScalesPlace::at_end;
  decoder.vllm.knows_stage = decoder.vllm.generic = true;
  return build(decoder);
}

ModelSpec make_phi(const ConfigReader& config) {
  Decoder decoder{.family = "phi"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "layer_norm_eps", NormTensors::weight_and_bias);
  set_parallel_with_one_norm(decoder);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = decoder.head_bias = true;
  decoder.mlp_kind = MlpKind::plain;
  decoder.qk_norm = config.boolean({"qk_layernorm"}, false);
  decoder.head_norm = {.kind = NormKind::layer, .tensors = NormTensors::weight_and_bias};
  decoder.names.q_norm = "q_layernorm";
  decoder.names.k_norm = "k_layernorm";
  decoder.names.out = "dense";
  decoder.names.up = "fc1";
  decoder.names.down = "fc2";
  decoder.names.final_norm = "final_layernorm";
  use_transformers_class(decoder);
  return build(decoder);
}

}  // namespace plimsoll::model
