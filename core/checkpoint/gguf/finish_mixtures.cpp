#include "checkpoint/gguf/finish.h"

namespace plimsoll::checkpoint::gguf {

void finish_qwen_mixture(const Keys& keys, Json& config) {
  config["norm_topk_prob"] = keys.model().architecture() != "qwen2moe";
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = Json::array();
}

void finish_olmoe(const Keys& keys, Json& config) {
  (void)keys;
  config["norm_topk_prob"] = false;
}

void finish_glm4_moe(const Keys& keys, Json& config) {
  finish_glm4(keys, config);
  config["use_qk_norm"] = has_in_layers(keys, ".attn_q_norm.weight");
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", true);
  for (const char* latent : {"q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "v_head_dim"})
    config.erase(latent);
}

void finish_dots1(const Keys& keys, Json& config) {
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", false);
}

void finish_gpt_oss(const Keys& keys, Json& config) {
  config["attention_bias"] = true;
  config["swiglu_limit"] = 7.0;
  Json types = Json::array();
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  for (int64_t layer = 0; layer < layers; ++layer)
    types.push_back(layer % 2 == 0 ? "sliding_attention" : "full_attention");
  config["layer_types"] = types;
  state_rope(keys, config);
  if (!config.contains("rope_scaling")) return;
  config["rope_scaling"]["truncate"] = false;
  if (const auto length = keys.integer("rope.scaling.original_context_length"))
    config["initial_context_length"] = *length;
}

void finish_deepseek(const Keys& keys, Json& config) {
  const bool latent = keys.has("attention.key_length_mla");  // not in files before April 2025
  const int64_t head = required(keys, latent ? "attention.key_length_mla" : "attention.key_length");
  config["qk_nope_head_dim"] = head - required(keys, "rope.dimension_count");
  if (!latent) config["v_head_dim"] = required(keys, "attention.value_length");
  config.erase("head_dim");
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["moe_layer_freq"] = 1;
  if (!config.contains("q_lora_rank")) config["q_lora_rank"] = nullptr;
  const bool third = scores_by_sigmoid(keys);
  const bool grouped = keys.integer("expert_group_count").value_or(1) > 1;
  config["scoring_func"] = third ? "sigmoid" : "softmax";
  config["topk_method"] = third ? "noaux_tc" : grouped ? "group_limited_greedy" : "greedy";
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", false);
  for (const char* groups : {"n_group", "topk_group"})
    if (third && !config.contains(groups)) config[groups] = 1;
  if (!config.contains("rope_scaling")) return;
  constexpr double kPerMscale = 0.1;  // of yarn_log_multiplier
  if (const auto multiplier = keys.number("rope.scaling.yarn_log_multiplier")) {
    Json& rope = config["rope_scaling"];
    rope["mscale"] = rope["mscale_all_dim"] =
        static_cast<double>(static_cast<float>(*multiplier)) / kPerMscale;
  }
}

/// DeepSeek V3.2 and GLM 5: an indexer chooses keys, in all layers or in those that
/// attention.indexer.types marks.
void finish_indexed(const Keys& keys, Json& config) {
  finish_deepseek(keys, config);
  config["index_n_heads"] = required(keys, "attention.indexer.head_count");
  config["index_head_dim"] = required(keys, "attention.indexer.key_length");
  config["index_topk"] = required(keys, "attention.indexer.top_k");
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const auto chooses = keys.by_layer("attention.indexer.types", layers);
  if (!chooses) return;
  Json types = Json::array();
  for (const int64_t own : *chooses) types.push_back(own != 0 ? "full" : "shared");
  config["indexer_types"] = types;
}

void finish_minimax(const Keys& keys, Json& config) {
  add_rotary_share(keys, config);
  config["rotary_dim"] = required(keys, "rope.dimension_count");
  config["use_qk_norm"] = true;
  config["qk_norm_type"] = "per_layer";
  config["scoring_func"] = "sigmoid";
  config["use_routing_bias"] = has_in_layers(keys, ".exp_probs_b.bias");
}

/// DeepSeek's first mixture, whose attention has heads.
void finish_first_deepseek(const Keys& keys, Json& config) {
  config["moe_layer_freq"] = 1;
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", false);
  for (const char* latent : {"q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "v_head_dim"})
    config.erase(latent);
}

/// Ling 1 and 2 (BailingMoE).
void finish_ling(const Keys& keys, Json& config) {
  const bool biased = has_in_layers(keys, ".exp_probs_b.bias");
  const bool sigmoid = keys.integer("expert_gating_func").value_or(1) == 2;
  config["score_function"] = sigmoid ? "sigmoid" : "softmax";
  config["moe_router_enable_expert_bias"] = biased;
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", false);
  config["use_qk_norm"] = has_in_layers(keys, ".attn_q_norm.weight");
  config["use_rmsnorm"] = true;
  config["use_bias"] = false;
  config["use_qkv_bias"] = has_in_layers(keys, ".attn_qkv.bias");
  if (const auto width = keys.integer("expert_shared_feed_forward_length"))
    config["moe_shared_expert_intermediate_size"] = *width;
  add_rotary_share(keys, config);
}

/// Phi-3.5-MoE. The converter writes the factor of Phi-3's formula, which the published models,
/// of 4,096 positions stretched to 131,072, do not have.
void finish_phimoe(const Keys& keys, Json& config) {
  constexpr double kPublished = 1.243163121016122;
  config["attention_bias"] = has_in_layers(keys, ".attn_q.bias");
  config["lm_head_bias"] = keys.has_tensor("output.bias");
  if (const auto window = keys.integer("attention.sliding_window"); window && *window > 0)
    config["sliding_window"] = *window;
  const bool published = keys.integer("rope.scaling.original_context_length") == 4096 &&
                         keys.integer("context_length") == 131072;
  add_longrope(keys, published ? kPublished : keys.number("rope.scaling.attn_factor"), config);
}

void finish_dbrx(const Keys& keys, Json& config) {
  Json attention = {{"kv_n_heads", required(keys, "attention.head_count_kv")},
                    {"rope_theta", keys.number("rope.freq_base").value_or(10000)}};
  if (const auto clamp = keys.number("attention.clamp_kqv"); clamp && *clamp > 0)
    attention["clip_qkv"] = *clamp;
  config["attn_config"] = attention;
  config["ffn_config"] = {{"ffn_hidden_size", required(keys, "feed_forward_length")},
                          {"moe_num_experts", required(keys, "expert_count")},
                          {"moe_top_k", required(keys, "expert_used_count")},
                          {"moe_normalize_expert_weights", 1}};
}

/// HY 3: which layers have experts is told by their routers.
void finish_hy_v3(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  Json types = Json::array();
  for (const bool sparse : layers_with(keys, ".ffn_gate_inp.weight", layers))
    types.push_back(sparse ? "sparse" : "dense");
  config["mlp_layer_types"] = types;
  config["num_shared_experts"] = keys.integer("expert_shared_feed_forward_length").value_or(0) /
                                 required(keys, "expert_feed_forward_length");
  config["qk_norm"] = config["route_norm"] = true;
}

}  // namespace plimsoll::checkpoint::gguf
