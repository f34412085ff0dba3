// Configs of models whose indexers pool keys, and of one whose attention compresses entries.
#pragma once

#include "base/json.h"

namespace plimsoll::plan {

/// GLM-5.3-Flash as published, without its tower.
inline Json glm_flash() {
  return parse_json<Json>(R"({"architectures":["Glm5NextForCausalLM"],"model_type":"glm5_next_text",
    "dtype":"bfloat16","hidden_size":4096,"intermediate_size":12288,"moe_intermediate_size":2048,
    "num_hidden_layers":45,"num_attention_heads":64,"num_key_value_heads":64,"n_shared_experts":1,
    "n_routed_experts":288,"num_experts_per_tok":8,"n_group":1,"topk_group":1,"kv_lora_rank":512,
    "q_lora_rank":1536,"qk_rope_head_dim":0,"qk_nope_head_dim":256,"v_head_dim":256,"head_dim":0,
    "index_topk":2048,"index_head_dim":128,"index_n_heads":32,"index_kpool":4,
    "indexer_rope_interleave":true,"hc_mult":4,"mhc":true,"mla_use_nope":true,
    "linear_attn_config":{"num_heads":64,"head_dim":128,"short_conv_kernel_size":4,
      "gate_lower_bound":-5.0},
    "max_position_embeddings":1048576,"vocab_size":154880,"scoring_func":"sigmoid",
    "topk_method":"noaux_tc","tie_word_embeddings":false})");
}

/// Qwen3.8-Flash-Next's text model with fewer layers and experts, and a small table.
inline Json qwen_flash() {
  return parse_json<Json>(R"({"architectures":["Qwen4ExpForCausalLM"],"model_type":"qwen4_exp_text",
    "dtype":"bfloat16","hidden_size":2560,"moe_intermediate_size":640,"num_hidden_layers":8,
    "num_attention_heads":24,"num_key_value_heads":2,"head_dim":256,"num_experts":16,
    "num_experts_per_tok":4,"shared_expert_intermediate_size":640,"full_attention_interval":4,
    "hc_count":4,"hc_lowrank":320,"heads_per_ngram":8,"ngram_size":3,"ngram_vocab_size_base":20000,
    "ple_embed_dim":2560,"ple_conv_kernel_size":4,"ple_layer_ids":[2],"indexer_budget":2048,
    "indexer_compress_ratio":4,"indexer_head_dim":128,"indexer_kv_heads":1,"indexer_n_heads":4,
    "linear_num_key_heads":16,"linear_num_value_heads":48,"linear_key_head_dim":128,
    "linear_value_head_dim":128,"linear_conv_kernel_dim":4,"partial_rotary_factor":0.25,
    "max_position_embeddings":65536,"eos_token_id":7,"vocab_size":32768,"rms_norm_eps":1e-6,
    "tie_word_embeddings":false})");
}

/// DeepSeek V4 with four layers and 16 experts.
inline Json deepseek_v4() {
  return parse_json<Json>(
      R"({"architectures":["DeepseekV4ForCausalLM"],"model_type":"deepseek_v4","hc_mult":4,
    "head_dim":512,"hidden_size":4096,"index_head_dim":128,"index_n_heads":64,"index_topk":1024,
    "max_position_embeddings":65536,"moe_intermediate_size":2048,"n_routed_experts":16,
    "n_shared_experts":1,"num_attention_heads":64,"num_experts_per_tok":6,"num_hidden_layers":4,
    "num_hash_layers":3,"num_key_value_heads":1,"o_groups":8,"o_lora_rank":1024,"q_lora_rank":1024,
    "qk_rope_head_dim":64,"rope_theta":10000,"scoring_func":"sqrtsoftplus","sliding_window":128,
    "tie_word_embeddings":false,"torch_dtype":"bfloat16","vocab_size":129280,
    "compress_rope_theta":160000,"compress_ratios":[0,0,4,128]})");
}

}  // namespace plimsoll::plan
