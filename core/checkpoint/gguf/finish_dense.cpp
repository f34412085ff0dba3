#include "checkpoint/gguf/finish.h"

#include <algorithm>

namespace plimsoll::checkpoint::gguf {

int64_t required(const Keys& keys, std::string_view key) {
  return keys.count(key, int64_t{1} << 24);
}

bool has_in_layers(const Keys& keys, std::string_view ending) {
  return std::ranges::any_of(keys.model().tensors(), [&](const Tensor& tensor) {
    return tensor.name.starts_with("blk.") && tensor.name.ends_with(ending);
  });
}

bool has_experts(const Keys& keys) {
  return keys.integer("expert_count").value_or(0) != 0;
}

bool scores_by_sigmoid(const Keys& keys) {
  const auto gating = keys.integer("expert_gating_func");  // GLM 4.7 Flash's files do not say
  return gating ? *gating == 2 : has_in_layers(keys, ".exp_probs_b.bias");
}

/// The rotated part of a head, of configs that state it as a share.
void add_rotary_share(const Keys& keys, Json& config) {
  const auto rotated = keys.integer("rope.dimension_count");
  if (!rotated) return;
  const int64_t head =
      config.contains("head_dim")
          ? config["head_dim"].get<int64_t>()
          : config.value("hidden_size", int64_t{1}) /
                std::max<int64_t>(1, config.value("num_attention_heads", int64_t{1}));
  config["partial_rotary_factor"] = static_cast<double>(*rotated) / static_cast<double>(head);
}

void add_by_layer(const Keys& keys, const char* metadata, const char* config_key, Json& config) {
  const auto numbers = keys.by_layer(metadata, config["num_hidden_layers"].get<int64_t>());
  if (!numbers) return;
  Json list = Json::array();
  for (const int64_t number : *numbers) {
    if (number < 0) keys.refuse(metadata, " has a number below 0");
    list.push_back(static_cast<uint64_t>(number));
  }
  config[config_key] = list;
}

void add_longrope(const Keys& keys, std::optional<double> scale, Json& config) {
  const auto longer = keys.tensor("rope_factors_long.weight");
  const auto shorter = keys.tensor("rope_factors_short.weight");
  if (!longer || !shorter) return;
  Json rope = {{"type", "longrope"}, {"long_factor", *longer}, {"short_factor", *shorter}};
  if (scale) rope["long_mscale"] = rope["short_mscale"] = *scale;
  config["rope_scaling"] = rope;
  const auto length = keys.integer("rope.scaling.original_context_length");
  if (length || config.contains("max_position_embeddings")) {
    config["original_max_position_embeddings"] =
        length ? *length : config["max_position_embeddings"].get<int64_t>();
  }
}

void finish_llama(const Keys& keys, Json& config) {
  config["attention_bias"] = has_in_layers(keys, ".attn_output.bias");
  config["mlp_bias"] = has_in_layers(keys, ".ffn_gate.bias");
  if (!has_experts(keys)) return;
  config["num_local_experts"] = required(keys, "expert_count");
  config["num_experts_per_tok"] = required(keys, "expert_used_count");
}

void finish_mistral3(const Keys& keys, Json& config) {
  Json rope = config.value("rope_scaling", Json::object());
  config.erase("rope_scaling");
  if (!rope.contains("rope_type")) rope["rope_type"] = "default";
  rope["rope_theta"] = config["rope_theta"];
  if (const auto mscale = keys.number("rope.scaling.yarn_log_multiplier"))
    rope["mscale"] = rope["mscale_all_dim"] = *mscale;
  if (const auto beta = keys.number("attention.temperature_scale"))
    rope["llama_4_scaling_beta"] = *beta;
  config["rope_parameters"] = rope;
}

void finish_granite(const Keys& keys, Json& config) {
  (void)keys;
  config["attention_bias"] = false;
}

void finish_smollm3(const Keys& keys, Json& config) {
  (void)keys;
  Json rotated = Json::array();
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  for (int64_t layer = 0; layer < layers; ++layer) rotated.push_back((layer + 1) % 4 != 0 ? 1 : 0);
  config["no_rope_layers"] = rotated;
  config["no_rope_layer_interval"] = 4;
}

void finish_qwen2(const Keys&, Json& config) {
  config["use_sliding_window"] = false;
}

void finish_gemma(const Keys& keys, Json& config) {
  (void)keys;
  config.erase("hidden_act");
  config["hidden_activation"] = "gelu_pytorch_tanh";
}

/// Gemma 2 and 3: the files do not say by what queries are scaled; the 27B models differ.
void finish_later_gemma(const Keys& keys, Json& config) {
  finish_gemma(keys, config);
  const bool second = keys.model().architecture() == "gemma2";
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const bool largest = layers == (second ? 46 : 62);
  const int64_t heads = required(keys, "attention.head_count");
  const int64_t own = config["hidden_size"].get<int64_t>() / heads;
  config["query_pre_attn_scalar"] = largest ? own : config.value("head_dim", own);
  if (second) return;
  config["sliding_window_pattern"] = 6;
  if (!config.contains("rope_local_base_freq")) config["rope_local_base_freq"] = 10000.0;
}

void finish_phi2(const Keys& keys, Json& config) {
  add_rotary_share(keys, config);
  config["qk_layernorm"] = false;
}

void finish_phi3(const Keys& keys, Json& config) {
  add_rotary_share(keys, config);
  if (const auto length = keys.integer("rope.scaling.original_context_length"))
    config["original_max_position_embeddings"] = *length;
  if (const auto window = keys.integer("attention.sliding_window"); window && *window > 0)
    config["sliding_window"] = *window;
  add_longrope(keys, std::nullopt, config);
}

void finish_exaone4(const Keys& keys, Json& config) {
  if (config["num_hidden_layers"] != 64) return;
  config["sliding_window"] = keys.integer("attention.sliding_window").value_or(4096);
  config["sliding_window_pattern"] = "LLLG";
}

void finish_glm4(const Keys& keys, Json& config) {
  config["attention_bias"] = has_in_layers(keys, ".attn_q.bias");
  add_rotary_share(keys, config);
}

void finish_seed_oss(const Keys& keys, Json& config) {
  config["attention_bias"] = has_in_layers(keys, ".attn_q.bias");
  config["attention_out_bias"] = has_in_layers(keys, ".attn_output.bias");
}

void finish_cohere(const Keys& keys, Json& config) {
  config["use_qk_norm"] = has_in_layers(keys, ".attn_q_norm.weight");
  config.erase("head_dim");  // transformers has hidden_size / heads alone
}

void finish_ernie(const Keys& keys, Json& config) {
  config["use_bias"] = has_in_layers(keys, ".attn_q.bias");
}

void finish_hunyuan(const Keys&, Json& config) {
  config.erase("rope_scaling");  // rope.freq_base holds its factor already
}

void finish_stablelm(const Keys& keys, Json& config) {
  add_rotary_share(keys, config);
  config["use_qkv_bias"] = has_in_layers(keys, ".attn_q.bias");
  config["qk_layernorm"] = has_in_layers(keys, ".attn_q_norm.weight");
}

void finish_starcoder2(const Keys& keys, Json& config) {
  config["use_bias"] = has_in_layers(keys, ".attn_q.bias");
}

}  // namespace plimsoll::checkpoint::gguf
