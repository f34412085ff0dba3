// Llama's kin: RMS norms before each branch.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

void add_attention_biases(const ConfigReader& config, Decoder& decoder) {
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
}

/// Which layers rotate q and k: 1 in `no_rope_layers`, else all but every
/// `no_rope_layer_interval`th.
std::vector<int32_t> rotated_layers(const ConfigReader& config, int64_t layers) {
  const Json* listed = config.find({"no_rope_layers"});
  const bool counted = listed == nullptr || (listed->is_array() && listed->empty());
  const int64_t interval = counted ? config.integer({"no_rope_layer_interval"}, 4) : 1;
  std::vector<int32_t> ropes;
  for (int64_t i = 1; i <= layers; ++i) ropes.push_back(i % interval == 0 ? -1 : 0);
  if (counted) return ropes;
  if (!listed->is_array() || listed->size() != ropes.size()) {
    config.refuse("no_rope_layers", fmt::format("a list of {} layers", layers));
  }
  for (size_t i = 0; i < ropes.size(); ++i) {
    const Json& rotates = (*listed)[i];
    if (rotates != 0 && rotates != 1) config.refuse("no_rope_layers", "a list of 0 and 1");
    ropes[i] = rotates == 1 ? 0 : -1;
  }
  return ropes;
}

}  // namespace

ModelSpec make_apertus(const ConfigReader& config) {
  Decoder decoder{.family = "apertus"};
  decoder.xielu = config.text({"hidden_act"}, "xielu") == "xielu";
  read_common(config, decoder, {.activation_key = decoder.xielu ? "" : "hidden_act"});
  add_attention_biases(config, decoder);
  add_llama_biases(config, decoder);
  decoder.mlp_kind = MlpKind::plain;
  decoder.qk_norm = true;
  decoder.names.attention_norm = "attention_layernorm";
  decoder.names.mlp_norm = "feedforward_layernorm";
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_arcee(const ConfigReader& config) {
  Decoder decoder{.family = "arcee"};
  read_common(config, decoder);
  add_attention_biases(config, decoder);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.mlp_kind = MlpKind::plain;
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_cwm(const ConfigReader& config) {
  Decoder decoder{.family = "cwm"};
  read_common(config, decoder);
  decoder.windows =
      read_windows(config, decoder.sizes.layers, config.integer({"sliding_window"}, 8192),
                   [](int64_t layer) { return layer % 4 != 0; });
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_ernie4_5(const ConfigReader& config) {
  Decoder decoder{.family = "ernie4_5"};
  read_common(config, decoder);
  // vLLM's class is Llama's, which reads other keys, and has no bias of the output projection.
  const bool bias = config.boolean({"use_bias"}, false);
  decoder.qkv_bias = decoder.mlp_bias = bias;
  add_llama_biases(config, decoder);
  decoder.out_bias = bias;
  decoder.out_bias_kept = Kept::in_run;
  decoder.rope_pairs = RopePairs::neighbours;
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_helium(const ConfigReader& config) {
  Decoder decoder{.family = "helium"};
  read_common(config, decoder);
  decoder.qkv_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.rope_pairs = RopePairs::neighbours;
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_hunyuan_dense(const ConfigReader& config) {
  Decoder decoder{.family = "hunyuan_v1_dense"};
  read_common(config, decoder);
  add_attention_biases(config, decoder);
  decoder.qk_norm = true;
  decoder.head_norm.order = NormOrder::after_rope;
  decoder.names.q_norm = "query_layernorm";
  decoder.names.k_norm = "key_layernorm";
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_internlm3(const ConfigReader& config) {
  Decoder decoder{.family = "internlm3"};
  read_common(config, decoder);
  decoder.qkv_bias = config.boolean({"qkv_bias"}, false);
  decoder.out_bias = decoder.mlp_bias = config.boolean({"bias"}, false);
  add_llama_biases(config, decoder);
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_ministral3(const ConfigReader& config) {
  Decoder decoder{.family = "ministral3"};
  read_common(config, decoder);
  decoder.windows = uniform_windows(config, decoder.sizes.layers, 0);
  const ConfigReader rope =
      config.object_or_empty(config.object("rope_parameters") ? "rope_parameters" : "rope_scaling");
  decoder.query_growth = {
      .beta = static_cast<float>(rope.positive({"llama_4_scaling_beta"}).value_or(0)),
      .period = rope.integer({"original_max_position_embeddings"}, decoder.sizes.max_position)};
  decoder.vllm.knows_stage = true;
  return build(decoder);
}

ModelSpec make_seed_oss(const ConfigReader& config) {
  Decoder decoder{.family = "seed_oss"};
  read_common(config, decoder);
  decoder.qkv_bias = config.boolean({"attention_bias"}, true);
  decoder.out_bias = config.boolean({"attention_out_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  use_transformers_class(decoder);
  return build(decoder);
}

ModelSpec make_smollm3(const ConfigReader& config) {
  Decoder decoder{.family = "smollm3"};
  read_common(config, decoder);
  add_attention_biases(config, decoder);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  decoder.layer_ropes = rotated_layers(config, decoder.sizes.layers);
  const int64_t window = config.boolean({"use_sliding_window"}, false)
                             ? config.integer({"sliding_window"}, 0, {0})
                             : 0;
  // A layer with a window is one without RoPE, where the config does not say.
  decoder.windows = read_windows(config, decoder.sizes.layers, window, [&](int64_t layer) {
    return window > 0 && decoder.layer_ropes[static_cast<size_t>(layer)] < 0;
  });
  use_transformers_class(decoder);
  return build(decoder);
}

}  // namespace plimsoll::model
