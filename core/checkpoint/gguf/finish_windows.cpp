// Models whose layers with a window differ from the others: Llama 4, Laguna, MiMo V2, Gemma 4.
#include <algorithm>
#include <set>
#include <string>

#include "checkpoint/gguf/finish.h"

namespace plimsoll::checkpoint::gguf {
namespace {

/// 1 for each layer that has experts.
Json sparse_layers(const Keys& keys, int64_t layers) {
  std::set<int64_t> sparse;
  for (const Tensor& tensor : keys.model().tensors()) {
    if (!tensor.name.starts_with("blk.") || !tensor.name.ends_with(".ffn_gate_inp.weight"))
      continue;
    sparse.insert(std::atoll(tensor.name.c_str() + 4));
  }
  Json list = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) list.push_back(sparse.contains(layer) ? 1U : 0U);
  return list;
}

}  // namespace

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
  config["moe_layer_freq"] = sparse_layers(keys, layers);
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
  const bool mixture = keys.integer("expert_count").value_or(0) > 0;
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
