#include "checkpoint/gguf/architectures.h"

#include <algorithm>

#include "checkpoint/gguf/finish.h"
#include "checkpoint/gguf/key_pairs.h"

namespace plimsoll::checkpoint::gguf {
namespace {

constexpr Architecture kArchitectures[] = {
    {"afmoe", "AfmoeForCausalLM", "afmoe", kAfmoe, finish_afmoe},
    {"apertus", "ApertusForCausalLM", "apertus", {}, state_rope, {.activation = "xielu"}},
    {"arcee", "ArceeForCausalLM", "arcee", {}, nullptr, {.activation = "relu2", .permuted = true}},
    {"baichuan", "BaichuanForCausalLM", "baichuan", {}, nullptr, {.permuted = true}},
    {"bailingmoe", "BailingMoeForCausalLM", "bailing_moe", kLing, finish_ling, {.permuted = true}},
    {"bailingmoe2", "BailingMoeV2ForCausalLM", "bailing_moe_v2", kLing, finish_ling},
    {"bloom", "BloomForCausalLM", "bloom", kPlainEpsilon, nullptr, {.activation = ""}},
    {"chatglm", "GlmForCausalLM", "glm", {}, finish_chatglm},
    {"cohere2", "Cohere2ForCausalLM", "cohere2", kCohere2},
    {"cohere2moe", "Cohere2MoeForCausalLM", "cohere2_moe", kCohereMixture, finish_cohere_mixture},
    {"command-r", "CohereForCausalLM", "cohere", kCohere, finish_cohere},
    {"dbrx", "DbrxForCausalLM", "dbrx", {}, finish_dbrx},
    {"deci", "DeciLMForCausalLM", "nemotron-nas", {}, finish_deci, {.permuted = true}},
    {"deepseek",
     "DeepseekForCausalLM",
     "deepseek",
     kRouted,
     finish_first_deepseek,
     {.permuted = true}},
    {"deepseek2", "DeepseekV2ForCausalLM", "deepseek_v2", kRouted, finish_deepseek},
    {"deepseek32", "DeepseekV32ForCausalLM", "deepseek_v32", kRouted, finish_indexed},
    {"dots1", "Dots1ForCausalLM", "dots1", kRouted, finish_dots1},
    {"ernie4_5", "Ernie4_5ForCausalLM", "ernie4_5", {}, finish_ernie},
    {"ernie4_5-moe", "Ernie4_5_MoeForCausalLM", "ernie4_5_moe", kErnieMixture, finish_ernie},
    {"exaone", "ExaoneForCausalLM", "exaone", kRmsEpsilon, finish_exaone, {.activation = ""}},
    {"exaone-moe", "ExaoneMoeForCausalLM", "exaone_moe", kExaoneMixture, finish_exaone_mixture},
    {"exaone4", "Exaone4ForCausalLM", "exaone4", {}, finish_exaone4},
    {"falcon", "FalconForCausalLM", "falcon", kPlainEpsilon, finish_falcon, {.activation = ""}},
    {"falcon-h1", "FalconH1ForCausalLM", "falcon_h1", {}, finish_falcon_h1},
    {"gemma", "GemmaForCausalLM", "gemma", {}, finish_gemma, {.activation = ""}},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", kGemma2, finish_later_gemma, {.activation = ""}},
    {"gemma3", "Gemma3ForCausalLM", "gemma3_text", kGemma3, finish_later_gemma, {.activation = ""}},
    {"gemma3n", "Gemma3nForCausalLM", "gemma3n_text", kGemma3n, finish_gemma3n, {.activation = ""}},
    {"gemma4", "Gemma4ForCausalLM", "gemma4_text", kGemma4, finish_gemma4, {.activation = ""}},
    {"glm-dsa", "GlmMoeDsaForCausalLM", "glm_moe_dsa", kRouted, finish_indexed},
    {"glm4", "Glm4ForCausalLM", "glm4", {}, finish_glm4},
    {"glm4moe",
     "Glm4MoeForCausalLM",
     "glm4_moe",
     kRouted,
     finish_glm4_moe,
     {.late_mlp_norm = true}},
    {"gpt-oss",
     "GptOssForCausalLM",
     "gpt_oss",
     kLocalExperts,
     finish_gpt_oss,
     {.late_mlp_norm = true}},
    {"gpt2", "GPT2LMHeadModel", "gpt2", kPlainEpsilon, nullptr, {.activation = ""}},
    {"gptneox",
     "GPTNeoXForCausalLM",
     "gpt_neox",
     kGptNeoX,
     finish_gpt_neox,
     {.activation = "gelu"}},
    {"granite", "GraniteForCausalLM", "granite", kGranite, finish_granite, {.permuted = true}},
    {"granite_swa",
     "GraniteSWAForCausalLM",
     "granite_swa",
     kGranite,
     finish_granite_windows,
     {.permuted = true}},
    {"granitehybrid",
     "GraniteMoeHybridForCausalLM",
     "granitemoehybrid",
     kGranite,
     finish_granite_hybrid,
     {.permuted = true}},
    {"granitemoe",
     "GraniteMoeForCausalLM",
     "granitemoe",
     kGranite,
     finish_granite,
     {.permuted = true}},
    {"hunyuan-dense", "HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", {}, finish_hunyuan},
    {"hunyuan-moe", "HunYuanMoEV1ForCausalLM", "hunyuan_v1_moe", kHunyuanMixture, finish_hunyuan},
    {"hy_v3", "HYV3ForCausalLM", "hy_v3", kHyV3, finish_hy_v3},
    {"internlm2", "InternLM2ForCausalLM", "internlm2", {}, finish_internlm2, {.permuted = true}},
    {"jais2", "Jais2ForCausalLM", "jais2", kPhi2, finish_jais2, {.activation = "relu2"}},
    {"jamba", "JambaForCausalLM", "jamba", kQwenMixture, finish_jamba},
    {"kimi-linear", "KimiLinearForCausalLM", "kimi_linear", kKimiLinear, finish_kimi_linear},
    {"laguna", "LagunaForCausalLM", "laguna", kLaguna, finish_laguna},
    {"lfm2", "Lfm2ForCausalLM", "lfm2", kLfm2, finish_lfm2},
    {"lfm2moe", "Lfm2MoeForCausalLM", "lfm2_moe", kLfm2Mixture, finish_lfm2},
    {"llama", "LlamaForCausalLM", "llama", {}, finish_llama, {.permuted = true}},
    {"llama4", "Llama4ForCausalLM", "llama4_text", kLlama4, finish_llama4, {.permuted = true}},
    {"mamba", "MambaForCausalLM", "mamba", kMamba, finish_mamba},
    {"mamba2", "Mamba2ForCausalLM", "mamba2", kMamba, finish_mamba},
    {"mellum", "MellumForCausalLM", "mellum", kMellum, finish_mellum},
    {"mimo2", "MiMoV2FlashForCausalLM", "mimo_v2_flash", kMimo2, finish_mimo2},
    {"minicpm", "MiniCPMForCausalLM", "minicpm", kMiniCpm, finish_minicpm, {.permuted = true}},
    {"minicpm3", "MiniCPM3ForCausalLM", "minicpm3", kMiniCpm3, finish_minicpm3},
    {"minimax-m2", "MiniMaxM2ForCausalLM", "minimax_m2", kLocalExperts, finish_minimax},
    {"mistral3", "Ministral3ForCausalLM", "ministral3", {}, finish_mistral3, {.permuted = true}},
    {"mpt", "MPTForCausalLM", "mpt", kPlainEpsilon, finish_mpt, {.activation = ""}},
    {"nemotron",
     "NemotronForCausalLM",
     "nemotron",
     kNemotron,
     finish_nemotron,
     {.activation = "relu2"}},
    {"nemotron_h", "NemotronHForCausalLM", "nemotron_h", {}, finish_nemotron_h},
    {"nemotron_h_moe", "NemotronHForCausalLM", "nemotron_h", kNemotronMixture, finish_nemotron_h},
    {"olmo", "OlmoForCausalLM", "olmo", kOlmo, nullptr, {.permuted = true}},
    {"olmo2", "Olmo2ForCausalLM", "olmo2", {}, finish_olmo2},
    {"olmoe", "OlmoeForCausalLM", "olmoe", kQwenMixture, finish_olmoe},
    {"orion", "OrionForCausalLM", "orion", kOrion},
    {"pangu-embedded", "PanguEmbeddedForCausalLM", "PanguEmbedded", {}, finish_llama_biases},
    {"phi2", "PhiForCausalLM", "phi", kPhi2, finish_phi2, {.activation = "gelu_new"}},
    {"phi3", "Phi3ForCausalLM", "phi3", {}, finish_phi3},
    {"phimoe", "PhiMoEForCausalLM", "phimoe", kPhiMixture, finish_phimoe},
    {"plamo3", "Plamo3ForCausalLM", "plamo3", kPlamo3, finish_plamo3, {.activation = ""}},
    {"qwen", "QWenLMHeadModel", "qwen", kRmsEpsilon, nullptr, {.activation = ""}},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", {}, finish_qwen2},
    {"qwen2moe", "Qwen2MoeForCausalLM", "qwen2_moe", kQwenMixture, finish_qwen_mixture},
    {"qwen2vl", "Qwen2ForCausalLM", "qwen2", {}, finish_qwen2},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", {}, finish_qwen2},
    {"qwen35", "Qwen3_5ForCausalLM", "qwen3_5_text", {}, finish_delta, {.late_mlp_norm = true}},
    {"qwen35moe",
     "Qwen3_5MoeForCausalLM",
     "qwen3_5_moe_text",
     kQwenMixture,
     finish_delta,
     {.late_mlp_norm = true}},
    {"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe", kQwenMixture, finish_qwen_mixture},
    {"qwen3next",
     "Qwen3NextForCausalLM",
     "qwen3_next",
     kQwenMixture,
     finish_delta,
     {.late_mlp_norm = true}},
    {"qwen3vl", "Qwen3ForCausalLM", "qwen3", {}, finish_qwen2},
    {"qwen3vlmoe", "Qwen3MoeForCausalLM", "qwen3_moe", kQwenMixture, finish_qwen_mixture},
    {"seed_oss", "SeedOssForCausalLM", "seed_oss", {}, finish_seed_oss, {.late_mlp_norm = true}},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", {}, finish_smollm3, {.permuted = true}},
    {"stablelm", "StableLmForCausalLM", "stablelm", kStableLm, finish_stablelm},
    {"starcoder",
     "GPTBigCodeForCausalLM",
     "gpt_bigcode",
     kPlainEpsilon,
     finish_starcoder,
     {.activation = ""}},
    {"starcoder2",
     "Starcoder2ForCausalLM",
     "starcoder2",
     kStarcoder2,
     finish_starcoder2,
     {.activation = "gelu_pytorch_tanh"}},
    {"xverse", "XverseForCausalLM", "xverse", {}, nullptr, {.permuted = true}},
};

bool has_shared_experts(const Keys& keys) {
  return has_in_layers(keys, ".ffn_up_shexp.weight");
}

bool lacks_factors(const Keys& keys) {
  return !keys.has("embedding_scale") && !keys.has("expert_shared_feed_forward_length");
}

bool has_window(const Keys& keys) {
  return keys.integer("attention.sliding_window").value_or(0) != 0;
}

bool normalizes_steps(const Keys& keys) {
  return keys.flag("ssm.dt_b_c_rms", false);
}

constexpr Namesake kNamesakes[] = {
    {"deepseek2", scores_by_sigmoid, "DeepseekV3ForCausalLM", "deepseek_v3"},
    {"granite_swa", has_experts, "GraniteMoeSWAForCausalLM", "granitemoe_swa"},
    {"granitehybrid", lacks_factors, "BambaForCausalLM", "bamba"},
    {"granitemoe", has_shared_experts, "GraniteMoeSharedForCausalLM", "granitemoeshared"},
    {"llama", has_experts, "MixtralForCausalLM", "mixtral"},
    {"mamba", normalizes_steps, "FalconMambaForCausalLM", "falcon_mamba"},
    {"olmo2", has_window, "Olmo3ForCausalLM", "olmo3"},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

const Architecture* find_architecture(std::string_view name) {
  const auto at = std::ranges::find(kArchitectures, name, &Architecture::name);
  return at == std::end(kArchitectures) ? nullptr : &*at;
}

const Namesake* find_namesake(const Keys& keys) {
  const auto at = std::ranges::find(kNamesakes, keys.model().architecture(), &Namesake::name);
  return at == std::end(kNamesakes) || !at->found(keys) ? nullptr : &*at;
}

}  // namespace plimsoll::checkpoint::gguf
