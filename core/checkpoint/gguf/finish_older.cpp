// Architectures before and beside Llama's: q, k and v in one tensor, LayerNorms, ALiBi.
#include "checkpoint/gguf/finish.h"

namespace plimsoll::checkpoint::gguf {

/// Falcon: with a second norm of the layer's input (40B), with one and several KV heads (11B), or
/// with one KV head (7B).
void finish_falcon(const Keys& keys, Json& config) {
  const int64_t kv_heads = keys.integer("attention.head_count_kv").value_or(1);
  const bool two_norms = has_in_layers(keys, ".attn_norm_2.weight");
  config["parallel_attn"] = true;
  config["multi_query"] = true;
  config["alibi"] = false;
  config["bias"] = has_in_layers(keys, ".attn_qkv.bias");
  config["new_decoder_architecture"] = two_norms || kv_heads > 1;
  config["num_ln_in_parallel_attn"] = two_norms ? 2 : 1;
  config["num_kv_heads"] = kv_heads;
}

void finish_gpt_neox(const Keys& keys, Json& config) {
  add_rotary_share(keys, config);
  if (config.contains("partial_rotary_factor")) {
    config["rotary_pct"] = config["partial_rotary_factor"];
    config.erase("partial_rotary_factor");
  }
  config["rotary_emb_base"] = keys.number("rope.freq_base").value_or(10000);
  config["attention_bias"] = has_in_layers(keys, ".attn_qkv.bias");
}

void finish_starcoder(const Keys& keys, Json& config) {
  config["multi_query"] = keys.integer("attention.head_count_kv").value_or(1) == 1;
}

void finish_mpt(const Keys& keys, Json& config) {
  const double largest = keys.number("attention.max_alibi_bias").value_or(0);
  Json attention = {{"alibi", largest > 0}};
  if (largest > 0) attention["alibi_bias_max"] = largest;
  if (const auto clamp = keys.number("attention.clamp_kqv"); clamp && *clamp > 0)
    attention["clip_qkv"] = *clamp;
  config["attn_config"] = attention;
}

void finish_internlm2(const Keys& keys, Json& config) {
  config["bias"] = has_in_layers(keys, ".attn_output.bias");
}

void finish_nemotron(const Keys& keys, Json& config) {
  add_rotary_share(keys, config);
  config["attention_bias"] = has_in_layers(keys, ".attn_q.bias");
  config["mlp_bias"] = has_in_layers(keys, ".ffn_up.bias");
}

}  // namespace plimsoll::checkpoint::gguf
