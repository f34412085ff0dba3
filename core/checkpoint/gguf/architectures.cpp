#include "checkpoint/gguf/architectures.h"

#include <algorithm>
#include <array>

#include "checkpoint/gguf/finish.h"

namespace plimsoll::checkpoint::gguf {
namespace {

constexpr KeyPair kPhi2[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"}};
constexpr KeyPair kStarcoder2[] = {{"norm_epsilon", "attention.layer_norm_epsilon"}};
constexpr KeyPair kCohere[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                               {"logit_scale", "logit_scale"}};
constexpr KeyPair kStableLm[] = {{"layer_norm_eps", "attention.layer_norm_epsilon"},
                                 {"use_parallel_residual", "use_parallel_residual"}};
constexpr KeyPair kGranite[] = {{"embedding_multiplier", "embedding_scale"},
                                {"attention_multiplier", "attention.scale"},
                                {"residual_multiplier", "residual_scale"},
                                {"logits_scaling", "logit_scale"},
                                {"num_local_experts", "expert_count"},
                                {"num_experts_per_tok", "expert_used_count"},
                                {"shared_intermediate_size", "expert_shared_feed_forward_length"}};
constexpr KeyPair kQwenMixture[] = {
    {"num_experts", "expert_count"},
    {"num_experts_per_tok", "expert_used_count"},
    {"moe_intermediate_size", "expert_feed_forward_length"},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}};
constexpr KeyPair kLocalExperts[] = {{"num_local_experts", "expert_count"},
                                     {"num_experts_per_tok", "expert_used_count"},
                                     {"sliding_window", "attention.sliding_window"},
                                     {"intermediate_size", "expert_feed_forward_length"}};
constexpr KeyPair kGemma2[] = {{"attn_logit_softcapping", "attn_logit_softcapping"},
                               {"final_logit_softcapping", "final_logit_softcapping"},
                               {"sliding_window", "attention.sliding_window"}};
constexpr KeyPair kGemma3[] = {{"final_logit_softcapping", "final_logit_softcapping"},
                               {"sliding_window", "attention.sliding_window"},
                               {"rope_local_base_freq", "rope.freq_base_swa"}};
constexpr KeyPair kRouted[] = {{"n_routed_experts", "expert_count"},
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
constexpr KeyPair kMamba[] = {{"state_size", "ssm.state_size"},
                              {"conv_kernel", "ssm.conv_kernel"},
                              {"layer_norm_epsilon", "attention.layer_norm_rms_epsilon"}};
constexpr KeyPair kLfm2[] = {{"conv_L_cache", "shortconv.l_cache"},
                             {"norm_eps", "attention.layer_norm_rms_epsilon"},
                             {"block_ff_dim", "feed_forward_length"}};

using A = Architecture;

constexpr std::array kArchitectures = {
    A{"arcee", "ArceeForCausalLM", "arcee", "relu2", true},
    A{"command-r", "CohereForCausalLM", "cohere", "silu", false, false, kCohere, finish_cohere},
    A{"deepseek2", "DeepseekV2ForCausalLM", "deepseek_v2", "silu", false, false, kRouted,
      finish_deepseek},
    A{"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", "silu", false, false, {}, finish_ernie},
    A{"exaone4", "Exaone4ForCausalLM", "exaone4", "silu", false, false, {}, finish_exaone4},
    A{"gemma", "GemmaForCausalLM", "gemma", "", false, false, {}, finish_gemma},
    A{"gemma2", "Gemma2ForCausalLM", "gemma2", "", false, false, kGemma2, finish_later_gemma},
    A{"gemma3", "Gemma3ForCausalLM", "gemma3_text", "", false, false, kGemma3, finish_later_gemma},
    A{"glm4", "Glm4ForCausalLM", "glm4", "silu", false, false, {}, finish_glm4},
    A{"glm4moe", "Glm4MoeForCausalLM", "glm4_moe", "silu", false, true, kRouted, finish_glm4_moe},
    A{"gpt-oss", "GptOssForCausalLM", "gpt_oss", "silu", false, true, kLocalExperts,
      finish_gpt_oss},
    A{"granite", "GraniteForCausalLM", "granite", "silu", true, false, kGranite, finish_granite},
    A{"granitehybrid", "GraniteMoeHybridForCausalLM", "granitemoehybrid", "silu", true, false,
      kGranite, finish_granite_hybrid},
    A{"granitemoe", "GraniteMoeForCausalLM", "granitemoe", "silu", true, false, kGranite,
      finish_granite},
    A{"hunyuan-dense",
      "HunYuanDenseV1ForCausalLM",
      "hunyuan_v1_dense",
      "silu",
      false,
      false,
      {},
      finish_hunyuan},
    A{"lfm2", "Lfm2ForCausalLM", "lfm2", "silu", false, false, kLfm2, finish_lfm2},
    A{"llama", "LlamaForCausalLM", "llama", "silu", true, false, {}, finish_llama},
    A{"mamba", "MambaForCausalLM", "mamba", "silu", false, false, kMamba, finish_mamba},
    A{"mamba2", "Mamba2ForCausalLM", "mamba2", "silu", false, false, kMamba, finish_mamba},
    A{"minimax-m2", "MiniMaxM2ForCausalLM", "minimax_m2", "silu", false, false, kLocalExperts,
      finish_minimax},
    A{"mistral3", "Ministral3ForCausalLM", "ministral3", "silu", true, false, {}, finish_mistral3},
    A{"nemotron_h",
      "NemotronHForCausalLM",
      "nemotron_h",
      "silu",
      false,
      false,
      {},
      finish_nemotron_h},
    A{"olmo2", "Olmo2ForCausalLM", "olmo2"},
    A{"olmoe", "OlmoeForCausalLM", "olmoe", "silu", false, false, kQwenMixture, finish_olmoe},
    A{"phi2", "PhiForCausalLM", "phi", "gelu_new", false, false, kPhi2, finish_phi2},
    A{"phi3", "Phi3ForCausalLM", "phi3", "silu", false, false, {}, finish_phi3},
    A{"qwen2", "Qwen2ForCausalLM", "qwen2", "silu", false, false, {}, finish_qwen2},
    A{"qwen2moe", "Qwen2MoeForCausalLM", "qwen2_moe", "silu", false, false, kQwenMixture,
      finish_qwen_mixture},
    A{"qwen3", "Qwen3ForCausalLM", "qwen3", "silu", false, false, {}, finish_qwen2},
    A{"qwen35", "Qwen3_5ForCausalLM", "qwen3_5_text", "silu", false, true, {}, finish_delta},
    A{"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe", "silu", false, false, kQwenMixture,
      finish_qwen_mixture},
    A{"qwen3next", "Qwen3NextForCausalLM", "qwen3_next", "silu", false, true, kQwenMixture,
      finish_delta},
    A{"seed_oss", "SeedOssForCausalLM", "seed_oss", "silu", false, true, {}, finish_seed_oss},
    A{"smollm3", "SmolLM3ForCausalLM", "smollm3", "silu", true, false, {}, finish_smollm3},
    A{"stablelm", "StableLmForCausalLM", "stablelm", "silu", false, false, kStableLm,
      finish_stablelm},
    A{"starcoder2", "Starcoder2ForCausalLM", "starcoder2", "gelu_pytorch_tanh", false, false,
      kStarcoder2, finish_starcoder2},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  const auto at = std::ranges::find(kArchitectures, name, &Architecture::name);
  return at == kArchitectures.end() ? nullptr : &*at;
}

}  // namespace plimsoll::checkpoint::gguf
