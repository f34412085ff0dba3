// Keys of config.json that have the values of metadata keys, for the rows of architectures.cpp.
#pragma once

#include "checkpoint/gguf/architectures.h"

namespace plimsoll::checkpoint::gguf {

inline constexpr KeyPair kPhi2[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"}};
inline constexpr KeyPair kStarcoder2[] = {{"norm_epsilon", "attention.layer_norm_epsilon"}};
inline constexpr KeyPair kCohere[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                      {"logit_scale", "logit_scale"}};
inline constexpr KeyPair kStableLm[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                        {"use_parallel_residual", "use_parallel_residual"}};
inline constexpr KeyPair kGranite[] = {
    {"embedding_multiplier", "embedding_scale"},
    {"attention_multiplier", "attention.scale"},
    {"residual_multiplier", "residual_scale"},
    {"logits_scaling", "logit_scale"},
    {"num_local_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"shared_intermediate_size", "expert_shared_feed_forward_length"},
    {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kQwenMixture[] = {
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}};
inline constexpr KeyPair kLocalExperts[] = {{"num_local_experts", "expert_count"},
                                            {"num_experts_per_tok", "expert_used_count"},
                                            {"sliding_window", "attention.sliding_window"},
                                            {"intermediate_size", "expert_feed_forward_length"}};
inline constexpr KeyPair kGemma2[] = {{"attn_logit_softcapping", "attn_logit_softcapping"},
                                      {"final_logit_softcapping", "final_logit_softcapping"},
                                      {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kGemma3[] = {{"final_logit_softcapping", "final_logit_softcapping"},
                                      {"sliding_window", "attention.sliding_window"},
                                      {"rope_local_base_freq", "rope.freq_base_swa"}};
inline constexpr KeyPair kRouted[] = {{"n_routed_experts", "expert_count"},
                                      {"num_experts_per_tok", "expert_used_count"},
                                      {"n_shared_experts", "expert_shared_count"},
                                      {"moe_intermediate_size", "expert_feed_forward_length"},
                                      {"first_k_dense_replace", "leading_dense_block_count"},
                                      {"routed_scaling_factor", "expert_weights_scale"},
                                      {"n_group", "expert_group_count"},
                                      {"topk_group", "expert_group_used_count"},
                                      {"q_lora_rank", "attention.q_lora_rank"},
                                      {"kv_lora_rank", "attention.kv_lora_rank"},
                                      {"qk_rope_head_dim", "rope.dimension_count"},
                                      {"v_head_dim", "attention.value_length_mla"},
                                      {"num_nextn_predict_layers", "nextn_predict_layers"}};
inline constexpr KeyPair kMamba[] = {{"state_size", "ssm.state_size"},
                                     {"conv_kernel", "ssm.conv_kernel"},
                                     {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}};
inline constexpr KeyPair kLfm2[] = {{"conv_L_cache", "shortconv.l_cache"},
                                    {"norm_eps", "attention.layer_norm_rms_epsilon"},
                                    {"block_ff_dim", "feed_forward_length"}};

inline constexpr KeyPair kLfm2Mixture[] = {{"conv_L_cache", "shortconv.l_cache"},
                                           {"norm_eps", "attention.layer_norm_rms_epsilon"},
                                           {"num_experts", "expert_count"},
                                           {"num_experts_per_tok", "expert_used_count"},
                                           {"moe_intermediate_size", "expert_feed_forward_length"},
                                           {"num_dense_layers", "leading_dense_block_count"},
                                           {"routed_scaling_factor", "expert_weights_scale"}};
inline constexpr KeyPair kPlainEpsilon[] = {{"layer_norm_epsilon", "attention.layer_norm_epsilon"}};
inline constexpr KeyPair kGptNeoX[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                       {"use_parallel_residual", "use_parallel_residual"}};
inline constexpr KeyPair kCohere2[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                       {"logit_scale", "logit_scale"},
                                       {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kNemotron[] = {{"norm_eps", "attention.layer_norm_epsilon"}};
inline constexpr KeyPair kOlmo[] = {{"clip_qkv", "attention.clamp_kqv"}};
inline constexpr KeyPair kErnieMixture[] = {{"moe_num_experts", "expert_count"},
                                            {"moe_k", "expert_used_count"},
                                            {"moe_intermediate_size", "expert_feed_forward_length"},
                                            {"moe_num_shared_experts", "expert_shared_count"},
                                            {"moe_layer_interval", "interleave_moe_layer_step"},
                                            {"moe_layer_start_index", "leading_dense_block_count"}};
inline constexpr KeyPair kHunyuanMixture[] = {
    {"num_experts", "expert_count"},
    {"moe_topk", "expert_used_count"},
    {"num_shared_expert", "expert_shared_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"}};
inline constexpr KeyPair kLlama4[] = {{"num_local_experts", "expert_count"},
                                      {"num_experts_per_tok", "expert_used_count"},
                                      {"interleave_moe_layer_step", "interleave_moe_layer_step"},
                                      {"intermediate_size", "expert_feed_forward_length"},
                                      {"intermediate_size_mlp", "feed_forward_length"}};
inline constexpr KeyPair kLaguna[] = {
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"moe_routed_scaling_factor", "expert_weights_scale"},
    {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kMimo2[] = {{"n_routed_experts", "expert_count"},
                                     {"num_experts_per_tok", "expert_used_count"},
                                     {"moe_intermediate_size", "expert_feed_forward_length"},
                                     {"n_group", "expert_group_count"},
                                     {"topk_group", "expert_group_used_count"},
                                     {"routed_scaling_factor", "expert_weights_scale"},
                                     {"v_head_dim", "attention.value_length"},
                                     {"attention_value_scale", "attention.value_scale"},
                                     {"swa_rope_theta", "rope.freq_base_swa"},
                                     {"sliding_window_size", "attention.sliding_window"}};
inline constexpr KeyPair kNemotronMixture[] = {
    {"n_routed_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    {"n_shared_experts", "expert_shared_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"norm_topk_prob", "expert_weights_norm"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"}};
inline constexpr KeyPair kGemma4[] = {{"final_logit_softcapping", "final_logit_softcapping"},
                                      {"sliding_window", "attention.sliding_window"},
                                      {"num_experts", "expert_count"},
                                      {"top_k_experts", "expert_used_count"},
                                      {"moe_intermediate_size", "expert_feed_forward_length"},
                                      {"head_dim", "attention.key_length_swa"},
                                      {"global_head_dim", "attention.key_length"},
                                      {"num_kv_shared_layers", "attention.shared_kv_layers"}};
inline constexpr KeyPair kGemma3n[] = {
    {"final_logit_softcapping", "final_logit_softcapping"},
    {"sliding_window", "attention.sliding_window"},
    {"rope_local_base_freq", "rope.freq_base_swa"},
    {"altup_num_inputs", "altup.num_inputs"},
    {"altup_active_idx", "altup.active_idx"},
    {"hidden_size_per_layer_input", "embedding_length_per_layer_input"},
    {"num_kv_shared_layers", "attention.shared_kv_layers"}};
inline constexpr KeyPair kKimiLinear[] = {{"num_experts", "expert_count"},
                                          {"num_experts_per_token", "expert_used_count"},
                                          {"num_shared_experts", "expert_shared_count"},
                                          {"moe_intermediate_size", "expert_feed_forward_length"},
                                          {"first_k_dense_replace", "leading_dense_block_count"},
                                          {"routed_scaling_factor", "expert_weights_scale"},
                                          {"kv_lora_rank", "attention.kv_lora_rank"},
                                          {"qk_rope_head_dim", "rope.dimension_count"},
                                          {"v_head_dim", "attention.value_length_mla"}};

inline constexpr KeyPair kRmsEpsilon[] = {
    {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}};
inline constexpr KeyPair kOrion[] = {{"rms_norm_eps", "attention.layer_norm_epsilon"}};
inline constexpr KeyPair kPlamo3[] = {{"rope_local_theta", "rope.freq_base_swa"},
                                      {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kMiniCpm[] = {{"scale_emb", "embedding_scale"}};
inline constexpr KeyPair kMiniCpm3[] = {{"q_lora_rank", "attention.q_lora_rank"},
                                        {"kv_lora_rank", "attention.kv_lora_rank"},
                                        {"qk_rope_head_dim", "rope.dimension_count"}};
inline constexpr KeyPair kPhiMixture[] = {{"num_local_experts", "expert_count"},
                                          {"num_experts_per_tok", "expert_used_count"}};
inline constexpr KeyPair kAfmoe[] = {{"num_experts", "expert_count"},
                                     {"num_experts_per_tok", "expert_used_count"},
                                     {"num_shared_experts", "expert_shared_count"},
                                     {"moe_intermediate_size", "expert_feed_forward_length"},
                                     {"num_dense_layers", "leading_dense_block_count"},
                                     {"route_scale", "expert_weights_scale"},
                                     {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kLing[] = {{"num_experts", "expert_count"},
                                    {"num_experts_per_tok", "expert_used_count"},
                                    {"num_shared_experts", "expert_shared_count"},
                                    {"moe_intermediate_size", "expert_feed_forward_length"},
                                    {"first_k_dense_replace", "leading_dense_block_count"},
                                    {"routed_scaling_factor", "expert_weights_scale"},
                                    {"n_group", "expert_group_count"},
                                    {"topk_group", "expert_group_used_count"}};
inline constexpr KeyPair kCohereMixture[] = {
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"num_shared_experts", "expert_shared_count"},
    {"intermediate_size", "expert_feed_forward_length"},
    {"prefix_dense_intermediate_size", "feed_forward_length"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"layer_norm_eps", "attention.layer_norm_epsilon"},
    {"logit_scale", "logit_scale"},
    {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kExaoneMixture[] = {
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"num_shared_experts", "expert_shared_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"first_k_dense_replace", "leading_dense_block_count"},
    {"routed_scaling_factor", "expert_weights_scale"},
    {"norm_topk_prob", "expert_weights_norm"},
    {"n_group", "expert_group_count"},
    {"topk_group", "expert_group_used_count"},
    {"sliding_window", "attention.sliding_window"}};
inline constexpr KeyPair kHyV3[] = {{"num_experts", "expert_count"},
                                    {"num_experts_per_tok", "expert_used_count"},
                                    {"moe_intermediate_size", "expert_feed_forward_length"},
                                    {"router_scaling_factor", "expert_weights_scale"}};
inline constexpr KeyPair kMellum[] = {{"num_local_experts", "expert_count"},
                                      {"num_experts_per_tok", "expert_used_count"},
                                      {"moe_intermediate_size", "expert_feed_forward_length"},
                                      {"sliding_window", "attention.sliding_window"}};

}  // namespace plimsoll::checkpoint::gguf
