#include "checkpoint/gguf/finish.h"

#include <algorithm>
#include <string>
#include <vector>

namespace plimsoll::checkpoint::gguf {
namespace {

/// Words for layers with attention and for those without, by the number of KV heads of each.
Json layer_types(const Keys& keys, const Json& config, const char* attention, const char* other) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const auto heads = keys.by_layer("attention.head_count_kv", layers);
  if (!heads) keys.refuse("attention.head_count_kv", ": a number for each layer is needed");
  Json types = Json::array();
  for (const int64_t count : *heads) types.push_back(count > 0 ? attention : other);
  return types;
}

void add_mamba2_sizes(const Keys& keys, Json& config) {
  const int64_t heads = required(keys, "ssm.time_step_rank"),
                inner = required(keys, "ssm.inner_size");
  config["mamba_n_heads"] = heads;
  config["mamba_d_head"] = inner / heads;
  config["mamba_n_groups"] = keys.integer("ssm.group_count").value_or(1);
  config["mamba_d_state"] = required(keys, "ssm.state_size");
  config["mamba_d_conv"] = required(keys, "ssm.conv_kernel");
  config["mamba_expand"] = inner / config["hidden_size"].get<int64_t>();
  config["mamba_conv_bias"] = has_in_layers(keys, ".ssm_conv1d.bias");
  config["mamba_proj_bias"] = has_in_layers(keys, ".ssm_in.bias");
}

/// Bamba, which is stored as a Granite 4 without its factors.
void finish_bamba(const Keys& keys, Json& config) {
  const Json types = layer_types(keys, config, "attention", "mamba");
  Json attends = Json::array();
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i] == "attention") attends.push_back(i);
  config["attn_layer_indices"] = attends;
  add_mamba2_sizes(keys, config);
}

/// "NAME_period" and "NAME_offset" of layers at even distances; refused where they are at others.
void add_period(const Keys& keys, const char* name, const std::vector<bool>& marked, Json& config) {
  const auto is_marked = [&](size_t layer) { return layer < marked.size() && marked[layer]; };
  size_t first = 0;
  while (first < marked.size() && !marked[first]) ++first;
  size_t period = 1;
  while (first + period < marked.size() && !marked[first + period]) ++period;
  if (first + period >= marked.size()) period = std::max(period, marked.size());
  if (first == marked.size()) period = 1;  // no layer
  for (size_t layer = 0; layer < marked.size(); ++layer) {
    if (is_marked(layer) != (layer % period == first))
      keys.refuse("block_count", std::string(": the layers of ") + name + " have no even distance");
  }
  config[std::string(name) + "_period"] = period;
  config[std::string(name) + "_offset"] = first;
}

}  // namespace

void finish_jamba(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  std::vector<bool> attends;
  for (const Json& type : layer_types(keys, config, "attention", "mamba"))
    attends.push_back(type == "attention");
  add_period(keys, "attn_layer", attends, config);
  add_period(keys, "expert_layer", layers_with(keys, ".ffn_gate_inp.weight", layers), config);
  if (!has_experts(keys)) config["num_experts"] = config["num_experts_per_tok"] = 1;
  config["mamba_d_state"] = required(keys, "ssm.state_size");
  config["mamba_d_conv"] = required(keys, "ssm.conv_kernel");
  config["mamba_dt_rank"] = required(keys, "ssm.time_step_rank");
  config["mamba_expand"] = required(keys, "ssm.inner_size") / config["hidden_size"].get<int64_t>();
  config["mamba_conv_bias"] = has_in_layers(keys, ".ssm_conv1d.bias");
  config["mamba_proj_bias"] = has_in_layers(keys, ".ssm_in.bias");
}

/// Falcon-H1, whose factors the converter multiplies into the weights.
void finish_falcon_h1(const Keys& keys, Json& config) {
  add_mamba2_sizes(keys, config);
  config["mamba_d_ssm"] = required(keys, "ssm.inner_size");
  config["mamba_rms_norm"] = has_in_layers(keys, ".ssm_norm.weight");
  config["mamba_norm_before_gate"] = false;
  config["projectors_bias"] = has_in_layers(keys, ".ssm_out.bias");
  config["attention_bias"] = has_in_layers(keys, ".attn_q.bias");
  config["mlp_bias"] = has_in_layers(keys, ".ffn_up.bias");
}

void finish_granite_hybrid(const Keys& keys, Json& config) {
  if (config["model_type"] == "bamba") return finish_bamba(keys, config);
  config["layer_types"] = layer_types(keys, config, "attention", "mamba");
  add_mamba2_sizes(keys, config);
  config["position_embedding_type"] = keys.flag("rope.scaling.finetuned", false) ? "rope" : "nope";
  if (!config.contains("shared_intermediate_size"))
    config["shared_intermediate_size"] = config.value("intermediate_size", int64_t{0});
}

void finish_delta(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const int64_t heads = required(keys, "ssm.time_step_rank");
  config["linear_conv_kernel_dim"] = required(keys, "ssm.conv_kernel");
  config["linear_key_head_dim"] = required(keys, "ssm.state_size");
  config["linear_num_key_heads"] = required(keys, "ssm.group_count");
  config["linear_num_value_heads"] = heads;
  config["linear_value_head_dim"] = required(keys, "ssm.inner_size") / heads;
  const int64_t period = keys.integer("full_attention_interval").value_or(4);
  const auto recurrent = keys.by_layer("attention.recurrent_layers", layers);
  Json types = Json::array();
  for (int64_t layer = 0; layer < layers; ++layer) {
    const bool is_recurrent = recurrent ? (*recurrent)[static_cast<size_t>(layer)] != 0
                                        : (layer + 1) % std::max<int64_t>(1, period) != 0;
    types.push_back(is_recurrent ? "linear_attention" : "full_attention");
  }
  config["layer_types"] = types;
  add_rotary_share(keys, config);
  if (config.contains("num_experts")) finish_qwen_mixture(keys, config);
}

void finish_lfm2(const Keys& keys, Json& config) {
  config["layer_types"] = layer_types(keys, config, "full_attention", "conv");
  config["conv_bias"] = has_in_layers(keys, ".shortconv.conv.bias");
  config["block_auto_adjust_ff_dim"] = false;
  config["use_expert_bias"] = has_in_layers(keys, ".exp_probs_b.bias");
}

/// Kimi Linear: layers with KV heads have latent attention, the others the delta rule.
void finish_kimi_linear(const Keys& keys, Json& config) {
  config["layer_types"] = layer_types(keys, config, "full_attention", "linear_attention");
  config["num_key_value_heads"] = config["num_attention_heads"];
  config["q_lora_rank"] = nullptr;
  config["qk_nope_head_dim"] =
      required(keys, "attention.key_length_mla") - required(keys, "rope.dimension_count");
  config["linear_attn_config"] = {{"num_heads", config["num_attention_heads"]},
                                  {"head_dim", required(keys, "kda.head_dim")},
                                  {"short_conv_kernel_size", required(keys, "ssm.conv_kernel")}};
  config["mla_use_nope"] = true;
  config["moe_renormalize"] = keys.flag("expert_weights_norm", true);
}

void finish_mamba(const Keys& keys, Json& config) {
  const int64_t inner = required(keys, "ssm.inner_size");
  config["expand"] = inner / config["hidden_size"].get<int64_t>();
  config["intermediate_size"] = inner;
  config["use_conv_bias"] = has_in_layers(keys, ".ssm_conv1d.bias");
  config["use_bias"] = has_in_layers(keys, ".ssm_in.bias");
  if (keys.model().architecture() == "mamba") {
    config["time_step_rank"] = required(keys, "ssm.time_step_rank");
    return;
  }
  const int64_t heads = required(keys, "ssm.time_step_rank");
  config["num_heads"] = heads;
  config["head_dim"] = inner / heads;
  config["n_groups"] = keys.integer("ssm.group_count").value_or(1);
  config["rms_norm"] = has_in_layers(keys, ".ssm_norm.weight");
}

void finish_nemotron_h(const Keys& keys, Json& config) {
  const auto layers = config["num_hidden_layers"].get<int64_t>();
  const auto heads = keys.by_layer("attention.head_count_kv", layers);
  const auto widths = keys.by_layer("feed_forward_length", layers);
  if (!heads || !widths)
    keys.refuse("attention.head_count_kv", " and feed_forward_length: numbers for each layer");
  const char wide = keys.model().architecture() == "nemotron_h" ? '-' : 'E';
  std::string pattern;
  for (size_t i = 0; i < heads->size(); ++i)
    pattern += (*heads)[i] > 0 ? '*' : (*widths)[i] > 0 ? wide : 'M';
  config["hybrid_override_pattern"] = pattern;
  const int64_t inner = required(keys, "ssm.inner_size"),
                mixers = required(keys, "ssm.time_step_rank");
  config["mamba_num_heads"] = mixers;
  config["mamba_head_dim"] = inner / mixers;
  config["ssm_state_size"] = required(keys, "ssm.state_size");
  config["n_groups"] = keys.integer("ssm.group_count").value_or(1);
  config["conv_kernel"] = required(keys, "ssm.conv_kernel");
  config["expand"] = inner / config["hidden_size"].get<int64_t>();
  config["use_conv_bias"] = has_in_layers(keys, ".ssm_conv1d.bias");
  config["mlp_hidden_act"] = "relu2";
  config["layer_norm_epsilon"] =
      keys.number("attention.layer_norm_rms_epsilon")
          .value_or(keys.number("attention.layer_norm_epsilon").value_or(1e-5));
  for (const char* bias : {"use_bias", "mlp_bias", "mamba_proj_bias", "attention_bias"})
    config[bias] = false;
}

}  // namespace plimsoll::checkpoint::gguf
