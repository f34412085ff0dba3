// Kin of Llama with factors, biases or sizes of their own: MiniCPM, EXAONE 3, GLM-4, Jais 2, Deci.
#include <cmath>

#include "checkpoint/gguf/finish.h"

namespace plimsoll::checkpoint::gguf {

void finish_llama_biases(const Keys& keys, Json& config) {
  config["attention_bias"] = config["bias"] = has_in_layers(keys, ".attn_output.bias");
}

void state_rope(const Keys&, Json& config) {
  if (config.contains("rope_scaling")) return;
  config["rope_parameters"] = {{"rope_type", "default"},
                               {"rope_theta", config.value("rope_theta", 10000.0)}};
}

void finish_exaone(const Keys&, Json& config) {
  config["activation_function"] = "silu";
}

/// GLM-4 as transformers stores it, or as its own class does, with q, k and v in one tensor.
void finish_chatglm(const Keys& keys, Json& config) {
  config["attention_bias"] =
      has_in_layers(keys, ".attn_q.bias") || has_in_layers(keys, ".attn_qkv.bias");
  if (!config.contains("head_dim")) {
    config["head_dim"] =
        config["hidden_size"].get<int64_t>() / required(keys, "attention.head_count");
  }
  add_rotary_share(keys, config);
}

void finish_jais2(const Keys& keys, Json& config) {
  config["attention_bias"] = has_in_layers(keys, ".attn_q.bias");
  config["mlp_bias"] = has_in_layers(keys, ".ffn_up.bias");
}

/// MiniCPM's factors; older files leave them out, and llama.cpp takes those of the first model.
void finish_minicpm(const Keys& keys, Json& config) {
  const double layers = config["num_hidden_layers"].get<double>();
  const double hidden = config["hidden_size"].get<double>();
  if (!config.contains("scale_emb")) config["scale_emb"] = 12;
  const auto depth = keys.number("residual_scale");
  config["scale_depth"] = depth ? *depth * std::sqrt(layers) : 1.4;
  const auto divisor = keys.number("logit_scale");
  config["dim_model_base"] = divisor && *divisor > 0 ? hidden / *divisor : 256;
  add_longrope(keys, std::nullopt, config);
}

/// MiniCPM 3, whose factors llama.cpp knows by heart.
void finish_minicpm3(const Keys& keys, Json& config) {
  config["qk_nope_head_dim"] =
      required(keys, "attention.key_length") - required(keys, "rope.dimension_count");
  config["head_dim"] = required(keys, "rope.dimension_count");
  config["scale_emb"] = 12;
  config["scale_depth"] = 1.4;
  config["dim_model_base"] = 256;
  add_longrope(keys, std::nullopt, config);
}

/// Deci and Nemotron-NAS: KV heads and the width of the MLP by layer; 0: the layer has none.
void finish_deci(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const int64_t most = required(keys, "attention.head_count");
  const auto of_layer = [&](const char* key, int64_t layer) {
    const auto listed = keys.by_layer(key, layers);
    return listed ? (*listed)[static_cast<size_t>(layer)] : keys.integer(key).value_or(most);
  };
  Json blocks = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const int64_t heads = of_layer("attention.head_count", layer);
    const int64_t kv_heads = of_layer("attention.head_count_kv", layer);
    const int64_t width = of_layer("feed_forward_length", layer);
    if (heads > 0 && kv_heads == 0)
      keys.refuse("attention.head_count_kv", " has a 0: linear attention is not supported");
    Json attention = {{"no_op", heads == 0}}, mlp = {{"no_op", width == 0}};
    if (heads > 0) attention["n_heads_in_group"] = heads / kv_heads;
    if (width > 0) mlp["intermediate_size"] = width;
    blocks.push_back({{"attention", attention}, {"ffn", mlp}});
  }
  config["block_configs"] = blocks;
}

}  // namespace plimsoll::checkpoint::gguf
