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
  if (!config.contains("rope_scaling")) return;
  config["rope_scaling"]["truncate"] = false;
  if (const auto length = keys.integer("rope.scaling.original_context_length"))
    config["initial_context_length"] = *length;
}

void finish_deepseek(const Keys& keys, Json& config) {
  config["qk_nope_head_dim"] =
      required(keys, "attention.key_length_mla") - required(keys, "rope.dimension_count");
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["moe_layer_freq"] = 1;
  if (!config.contains("q_lora_rank")) config["q_lora_rank"] = nullptr;
  const bool third = keys.integer("expert_gating_func").value_or(1) == 2;
  const bool grouped = keys.integer("expert_group_count").value_or(1) > 1;
  config["scoring_func"] = third ? "sigmoid" : "softmax";
  config["topk_method"] = third ? "noaux_tc" : grouped ? "group_limited_greedy" : "greedy";
  config["norm_topk_prob"] = keys.flag("expert_weights_norm", false);
  if (third && keys.model().architecture() == "deepseek2") {
    config["architectures"] = Json::array({"DeepseekV3ForCausalLM"});
    config["model_type"] = "deepseek_v3";
  }
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

}  // namespace plimsoll::checkpoint::gguf
