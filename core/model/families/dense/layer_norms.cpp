// LayerNorms before each branch; StableLM may have its branches side by side.
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_jais2(const ConfigReader& config) {
  Decoder decoder{.family = "jais2"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "layer_norm_eps", NormTensors::weight_and_bias);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, true);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, true);
  decoder.mlp_kind = MlpKind::plain;
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_nemotron(const ConfigReader& config) {
  Decoder decoder{.family = "nemotron"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "norm_eps", NormTensors::weight_and_bias);
  decoder.norm.weight_offset = 1;
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  add_kin_biases(config, decoder);
  decoder.mlp_kind = MlpKind::plain;
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_persimmon(const ConfigReader& config) {
  Decoder decoder{.family = "persimmon"};
  read_common(config, decoder);
  decoder.sizes.kv_heads = decoder.sizes.heads;
  use_layer_norms(config, decoder, "layer_norm_eps", NormTensors::weight_and_bias);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
  decoder.mlp_kind = MlpKind::plain;
  decoder.qkv_stored = QkvStored::grouped;
  decoder.qk_norm = config.boolean({"qk_layernorm"}, true);
  decoder.head_norm = {.kind = NormKind::layer, .tensors = NormTensors::weight_and_bias};
  decoder.names.q_norm = "q_layernorm";
  decoder.names.k_norm = "k_layernorm";
  decoder.names.qkv = "query_key_value";
  decoder.names.out = "dense";
  decoder.names.up = "dense_h_to_4h";
  decoder.names.down = "dense_4h_to_h";
  decoder.names.final_norm = "final_layernorm";
  // vLLM's Transformers class has no plan for the ranks but for the vocabulary's.
  decoder.interleaved = InterleavedCut::in_place;
  decoder.qkv_split = decoder.attention_out_split = decoder.mlp_split = Split::replicated;
  decoder.scales = ScalesPlace::at_end;
  decoder.vllm.knows_stage = decoder.vllm.generic = true;
  return build(decoder);
}

ModelSpec make_stablelm(const ConfigReader& config) {
  Decoder decoder{.family = "stablelm"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "layer_norm_eps", NormTensors::weight_and_bias);
  decoder.qkv_bias = config.boolean({"use_qkv_bias"}, false);
  const auto flag = [&](std::string_view key) {  // which vLLM's class does not read
    return !config.describes() && config.boolean({key}, false);
  };
  decoder.qk_norm = flag("qk_layernorm");
  decoder.head_norm = {.kind = NormKind::layer, .weights = HeadNormStyle::Weights::own_apart};
  decoder.names.q_norm = "q_layernorm";
  decoder.names.k_norm = "k_layernorm";
  const bool parallel = flag("use_parallel_residual");
  if (parallel) {
    decoder.placement = NormPlacement::parallel;
    decoder.names.mlp_norm = "";
  }
  if (parallel || decoder.qk_norm) {
    decoder.vllm.refused = "vLLM's StableLM has neither norms of q and k nor branches side by side";
  }
  return build(decoder);
}

ModelSpec make_starcoder2(const ConfigReader& config) {
  Decoder decoder{.family = "starcoder2"};
  read_common(config, decoder);
  use_layer_norms(config, decoder, "norm_epsilon", NormTensors::weight_and_bias);
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = config.boolean({"use_bias"}, true);
  decoder.mlp_kind = MlpKind::plain;
  decoder.windows = uniform_windows(config, decoder.sizes.layers, 0);
  decoder.names.up = "c_fc";
  decoder.names.down = "c_proj";
  use_transformers_class(decoder);
  return build(decoder);
}

}  // namespace plimsoll::model
