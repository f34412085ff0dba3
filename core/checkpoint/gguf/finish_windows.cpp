// Models whose layers with a window differ from the others: OLMo 3, PLaMo 3, AFMoE, Mellum, Llama
// 4, Laguna, MiMo V2, Gemma 4.
#include <algorithm>
#include <cmath>
#include <string>

#include "checkpoint/gguf/finish.h"

namespace plimsoll::checkpoint::gguf {

std::vector<bool> layers_with(const Keys& keys, std::string_view ending, int64_t layers) {
  std::vector<bool> with(static_cast<size_t>(layers));
  for (const Tensor& tensor : keys.model().tensors()) {
    if (!tensor.name.starts_with("blk.") || !tensor.name.ends_with(ending)) continue;
    const auto layer = static_cast<size_t>(std::atoll(tensor.name.c_str() + 4));
    if (layer < with.size()) with[layer] = true;
  }
  return with;
}

void add_window_types(const Keys& keys, int64_t missing, Json& config) {
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const auto listed = keys.by_layer(kPattern, layers);
  const int64_t period = listed ? 1 : keys.integer(kPattern).value_or(missing);
  Json types = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool slides = listed ? (*listed)[static_cast<size_t>(layer)] != 0
                               : period > 0 && (layer + 1) % period != 0;
    types.push_back(slides ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = types;
}

/// OLMo 2, and OLMo 3, which has windows.
void finish_olmo2(const Keys& keys, Json& config) {
  if (config["model_type"] != "olmo3") return;
  config["sliding_window"] = *keys.integer("attention.sliding_window");
  add_window_types(keys, 4, config);
}

void finish_granite_windows(const Keys& keys, Json& config) {
  finish_granite(keys, config);
  add_window_types(keys, 4, config);
}

void finish_plamo3(const Keys& keys, Json& config) {
  add_window_types(keys, 8, config);
  if (!config.contains("rope_local_theta")) config["rope_local_theta"] = 10000.0;
}

void finish_afmoe(const Keys& keys, Json& config) {
  add_window_types(keys, 4, config);
  config["mup_enabled"] = config["route_norm"] = true;
  config["score_func"] = "sigmoid";
}

void finish_cohere_mixture(const Keys& keys, Json& config) {
  add_window_types(keys, 4, config);
  const bool sigmoid = keys.integer("expert_gating_func").value_or(2) == 2;
  config["expert_selection_fn"] = sigmoid ? "sigmoid" : "softmax";
  config["shared_expert_combination_strategy"] = "average";
}

void finish_exaone_mixture(const Keys& keys, Json& config) {
  add_window_types(keys, 4, config);
}

/// Mellum 2: layers with a window rotate by a base of their own, without scaling.
void finish_mellum(const Keys& keys, Json& config) {
  add_window_types(keys, 4, config);
  Json full = config.value("rope_scaling", Json{{"rope_type", "default"}});
  const double theta = keys.number("rope.freq_base").value_or(10000);
  full["rope_theta"] = theta;
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention",
       {{"rope_type", "default"},
        {"rope_theta", keys.number("rope.freq_base_swa").value_or(theta)}}}};
}

/// What llama.cpp knows by heart: chunks of 8,192 tokens, queries that grow by as many, and no
/// norms of q and k with 128 experts (Maverick).
void finish_llama4(const Keys& keys, Json& config) {
  constexpr int64_t kChunk = 8192, kMaverick = 128;
  config["attention_chunk_size"] = config["floor_scale"] = kChunk;
  config["attn_temperature_tuning"] = true;
  config["attn_scale"] = 0.1;
  config["no_rope_layer_interval"] = 4;
  config["use_qk_norm"] = required(keys, "expert_count") != kMaverick;
}

/// Laguna: every fourth layer sees everything, from the first on; its rotation is scaled, that of
/// the others is plain.
void finish_laguna(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const int64_t dense = keys.integer("leading_dense_block_count").value_or(0);
  Json windows = Json::array(), mlps = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    windows.push_back(layer % 4 == 0 ? "full_attention" : "sliding_attention");
    mlps.push_back(layer < dense ? "dense" : "sparse");
  }
  config["layer_types"] = windows;
  config["mlp_layer_types"] = mlps;
  add_by_layer(keys, "attention.head_count", "num_attention_heads_per_layer", config);
  config["gating"] = has_in_layers(keys, ".attn_gate.weight");
  Json full = config.value("rope_scaling", Json{{"rope_type", "default"}});
  full["rope_theta"] = keys.number("rope.freq_base").value_or(10000);
  Json plain = {{"rope_type", "default"},
                {"rope_theta", keys.number("rope.freq_base_swa").value_or(10000)}};
  const double head = static_cast<double>(required(keys, "attention.key_length"));
  const auto share = [&](const char* key, Json& rope) {
    if (const auto rotated = keys.integer(key))
      rope["partial_rotary_factor"] = static_cast<double>(*rotated) / head;
  };
  share("rope.dimension_count", full);
  share("rope.dimension_count_swa", plain);
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"full_attention", full}, {"sliding_attention", plain}};
}

void finish_mimo2(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const auto windows = keys.by_layer("attention.sliding_window_pattern", layers);
  if (!windows)
    keys.refuse("attention.sliding_window_pattern", ": a number for each layer is needed");
  add_by_layer(keys, "attention.sliding_window_pattern", "hybrid_layer_pattern", config);
  Json sparse = Json::array();
  for (const bool has_experts : layers_with(keys, ".ffn_gate_inp.weight", layers))
    sparse.push_back(has_experts ? 1U : 0U);
  config["moe_layer_freq"] = sparse;
  const auto kv_heads = keys.by_layer("attention.head_count_kv", layers);
  for (size_t i = 0; i < windows->size(); ++i) {
    const bool slides = (*windows)[i] != 0;
    if (kv_heads && (*kv_heads)[i] > 0)
      config[slides ? "swa_num_key_value_heads" : "num_key_value_heads"] = (*kv_heads)[i];
    if (keys.has_tensor("blk." + std::to_string(i) + ".attn_sinks.weight"))
      config[slides ? "add_swa_attention_sink_bias" : "add_full_attention_sink_bias"] = true;
  }
  add_rotary_share(keys, config);
  config["scoring_func"] = "sigmoid";
  config["topk_method"] = "noaux_tc";
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", true);
  config["n_shared_experts"] = nullptr;
}

/// Gemma 3n. The file has the deviations of sparse gates, whose share of zeros the config has;
/// minus infinity: the layer's gates are not sparse. Ids of pictures and sounds have no inputs by
/// layer.
void finish_gemma3n(const Keys& keys, Json& config) {
  constexpr int64_t kFirstSoundOrPicture = 262144;
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  finish_gemma(keys, config);
  add_window_types(keys, 5, config);
  add_by_layer(keys, "feed_forward_length", "intermediate_size", config);
  config["vocab_size_per_layer_input"] =
      std::min(kFirstSoundOrPicture, config["vocab_size"].get<int64_t>());
  const Value* const deviations = keys.find("activation_sparsity_scale");
  const auto listed = deviations == nullptr ? std::nullopt : deviations->numbers();
  if (deviations != nullptr && (!listed || static_cast<int64_t>(listed->size()) < layers))
    keys.refuse("activation_sparsity_scale", ": a number for each layer is needed");
  Json shares = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const double deviation = listed ? (*listed)[static_cast<size_t>(layer)] : -INFINITY;
    if (std::isnan(deviation) || deviation == INFINITY)
      keys.refuse("activation_sparsity_scale", " is not a number");
    shares.push_back(std::erfc(-deviation / std::sqrt(2.0)) / 2);
  }
  config["activation_sparsity_pattern"] = shares;
  for (const Tensor& tensor : keys.model().tensors())
    if (tensor.name == "blk.0.laurel_l.weight" && tensor.ne.size() == 2)
      config["laurel_rank"] = tensor.ne[1];
}

/// Gemma 4: heads and rotation by the kind of layer. `rope_freqs` divides the frequencies that full
/// layers do not use by 1e30.
void finish_gemma4(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const auto windows = keys.by_layer("attention.sliding_window_pattern", layers);
  if (!windows)
    keys.refuse("attention.sliding_window_pattern", ": a bool for each layer is needed");
  const auto kv_heads = keys.by_layer("attention.head_count_kv", layers);
  Json types = Json::array();
  bool all_have_values = true;
  for (size_t i = 0; i < windows->size(); ++i) {
    const bool slides = (*windows)[i] != 0;
    const std::string layer = "blk." + std::to_string(i);
    types.push_back(slides ? "sliding_attention" : "full_attention");
    all_have_values &= slides || keys.has_tensor(layer + ".attn_v.weight") ||
                       !keys.has_tensor(layer + ".attn_k.weight");
    if (kv_heads && (*kv_heads)[i] > 0)
      config[slides ? "num_key_value_heads" : "num_global_key_value_heads"] = (*kv_heads)[i];
  }
  config["layer_types"] = types;
  config["attention_k_eq_v"] = !all_have_values;
  config.erase("hidden_act");
  config["hidden_activation"] = "gelu_pytorch_tanh";
  if (const auto widths = keys.by_layer("feed_forward_length", layers)) {
    config["intermediate_size"] = widths->front();
    config["use_double_wide_mlp"] = widths->back() > widths->front();
  }
  const bool mixture = has_experts(keys);
  config["enable_moe_block"] = mixture;
  if (!mixture) config.erase("num_experts");
  config["hidden_size_per_layer_input"] =
      keys.integer("embedding_length_per_layer_input").value_or(0);
  config["vocab_size_per_layer_input"] = config["vocab_size"];
  Json full = {{"rope_type", "proportional"}, {"partial_rotary_factor", 1.0}};
  full["rope_theta"] = keys.number("rope.freq_base").value_or(1000000);
  if (const auto divisors = keys.tensor("rope_freqs.weight"); divisors && !divisors->empty()) {
    constexpr float kUnused = 1e29F;
    const auto used = std::ranges::count_if(*divisors, [](float d) { return d < kUnused; });
    if (used > 0)
      full["partial_rotary_factor"] =
          static_cast<double>(used) / static_cast<double>(divisors->size());
  }
  const double theta = keys.number("rope.freq_base_swa").value_or(10000);
  config.erase("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", full},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", theta}}}};
}

}  // namespace plimsoll::checkpoint::gguf
