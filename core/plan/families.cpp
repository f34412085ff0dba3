#include "plan/families.h"

#include <algorithm>
#include <array>

namespace plimsoll::plan {
namespace {

constexpr Bias kAttentionBias{"attention_bias", false};
constexpr Bias kMlpBias{"mlp_bias", false};

constexpr auto kFamilies = std::to_array<Family>({
    {.architecture = "LlamaForCausalLM", .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = kMlpBias},
    {.architecture = "MistralForCausalLM", .windows = Windows::every},
    {.architecture = "Ministral3ForCausalLM", .windows = Windows::every},
    {.architecture = "InternLM3ForCausalLM", .qkv_bias = {"qkv_bias", false}, .out_bias = {"bias", false}, .mlp_bias = {"bias", false}},
    {.architecture = "InternLM2ForCausalLM", .qkv_bias = {"bias", false}, .out_bias = {"bias", false}},
    {.architecture = "InternLMForCausalLM", .qkv_bias = {"bias", true}, .out_bias = {"bias", true}},
    {.architecture = "BaichuanForCausalLM"},
    {.architecture = "XverseForCausalLM"},
    {.architecture = "SolarForCausalLM", .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = kMlpBias},
    {.architecture = "OrionForCausalLM", .norm = Norm::layer},
    {.architecture = "TeleChat2ForCausalLM", .mlp_bias = {nullptr, false}},
    {.architecture = "MiniCPMForCausalLM", .tied = true},
    {.architecture = "ArceeForCausalLM", .gated = false, .generic = true},
    {.architecture = "SeedOssForCausalLM", .qkv_bias = kAttentionBias, .out_bias = {"attention_out_bias", false}, .generic = true},
    {.architecture = "SmolLM3ForCausalLM", .tied = true, .generic = true},
    {.architecture = "Qwen2ForCausalLM", .qkv_bias = kAlways, .multimodal_positions = 4},
    {.architecture = "Qwen3ForCausalLM", .qk_norm = QkNorm::head, .qkv_bias = kAttentionBias},
    {.architecture = "QWenLMHeadModel", .qkv_bias = kAlways},
    {.architecture = "PanguEmbeddedForCausalLM", .qkv_bias = {"bias", false}, .out_bias = {"bias", false}},
    {.architecture = "GemmaForCausalLM", .tied = true, .embedding_scale = true},
    {.architecture = "Gemma2ForCausalLM", .norms = 4, .tied = true, .embedding_scale = true, .windows = Windows::alternate},
    {.architecture = "Gemma3ForCausalLM", .norms = 4, .qk_norm = QkNorm::head, .tied = true, .embedding_scale = true, .windows = Windows::pattern},
    {.architecture = "Gemma4ForCausalLM", .norms = 4, .qk_norm = QkNorm::head, .tied = true, .embedding_scale = true, .mixer = Mixer::gemma4},
    {.architecture = "PhiForCausalLM", .norm = Norm::layer, .norms = 1, .qkv_bias = kAlways, .out_bias = kAlways, .mlp_bias = kAlways, .gated = false, .generic = true},
    {.architecture = "Phi3ForCausalLM", .windows = Windows::every},
    {.architecture = "PhiMoEForCausalLM", .norm = Norm::layer, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .lm_head_bias = {"lm_head_bias", true}, .windows = Windows::every, .experts = Experts::mixtral},
    {.architecture = "GPT2LMHeadModel", .norm = Norm::layer, .qkv_bias = kAlways, .out_bias = kAlways, .mlp_bias = kAlways, .gated = false, .positions = Positions::learned, .tied = true},
    {.architecture = "GPTBigCodeForCausalLM", .norm = Norm::layer, .qkv_bias = kAlways, .out_bias = kAlways, .mlp_bias = kAlways, .gated = false, .positions = Positions::learned, .tied = true, .generic = true},
    {.architecture = "GPTJForCausalLM", .norm = Norm::layer, .norms = 1, .mlp_bias = kAlways, .lm_head_bias = kAlways, .gated = false},
    {.architecture = "MossForCausalLM", .norm = Norm::layer, .norms = 1, .mlp_bias = kAlways, .lm_head_bias = kAlways, .gated = false},
    {.architecture = "GPTNeoXForCausalLM", .norm = Norm::layer, .qkv_bias = {"attention_bias", true}, .out_bias = {"attention_bias", true}, .mlp_bias = kAlways, .gated = false, .generic = true},
    {.architecture = "OPTForCausalLM", .norm = Norm::layer, .qkv_bias = {"enable_bias", true}, .out_bias = {"enable_bias", true}, .mlp_bias = {"enable_bias", true}, .gated = false, .positions = Positions::learned, .extra_positions = 2, .tied = true},
    {.architecture = "BloomForCausalLM", .norm = Norm::layer, .qkv_bias = kAlways, .out_bias = kAlways, .mlp_bias = kAlways, .gated = false, .positions = Positions::none, .tied = true, .embedding_norm = true},
    {.architecture = "MptForCausalLM", .norm = Norm::layer_plain, .gated = false, .positions = Positions::none, .tied = true},
    {.architecture = "FalconForCausalLM", .norm = Norm::layer, .qkv_bias = {"bias", false}, .out_bias = {"bias", false}, .mlp_bias = {"bias", false}, .gated = false, .tied = true},
    {.architecture = "StableLmForCausalLM", .norm = Norm::layer, .qkv_bias = {"use_qkv_bias", false}},
    {.architecture = "Starcoder2ForCausalLM", .norm = Norm::layer, .qkv_bias = {"use_bias", true}, .out_bias = {"use_bias", true}, .mlp_bias = {"use_bias", true}, .gated = false, .tied = true, .windows = Windows::every, .generic = true},
    {.architecture = "CohereForCausalLM", .norm = Norm::layer_plain, .norms = 1, .qk_norm = QkNorm::heads, .qk_norm_key = "use_qk_norm", .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .tied = true},
    {.architecture = "Cohere2ForCausalLM", .norm = Norm::layer_plain, .norms = 1, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .tied = true, .windows = Windows::pattern},
    {.architecture = "ChatGLMForConditionalGeneration", .qkv_bias = {"add_qkv_bias", true}, .rotary_share = 0.5},
    {.architecture = "GlmForCausalLM", .qkv_bias = {"attention_bias", false}, .rotary_share = 0.5, .generic = true},
    {.architecture = "Glm4ForCausalLM", .norms = 4, .qkv_bias = kAttentionBias, .rotary_share = 0.5},
    {.architecture = "GraniteForCausalLM", .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = kMlpBias, .tied = true},
    {.architecture = "GraniteMoeForCausalLM", .qkv_bias = kNever, .tied = true, .experts = Experts::granite},
    {.architecture = "GraniteMoeSharedForCausalLM", .tied = true, .experts = Experts::granite},
    {.architecture = "GraniteMoeHybridForCausalLM", .tied = true, .mixer = Mixer::mamba_layers, .experts = Experts::granite},
    {.architecture = "ExaoneForCausalLM", .qkv_bias = kAttentionBias, .out_bias = kAttentionBias},
    {.architecture = "Exaone4ForCausalLM", .qk_norm = QkNorm::head, .windows = Windows::listed},
    {.architecture = "NemotronForCausalLM", .norm = Norm::layer, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = kMlpBias, .gated = false},
    {.architecture = "OlmoForCausalLM", .norms = 0, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .generic = true},
    {.architecture = "Olmo2ForCausalLM", .qk_norm = QkNorm::whole, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .generic = true},
    {.architecture = "Olmo3ForCausalLM", .qk_norm = QkNorm::whole, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .generic = true},
    {.architecture = "OlmoeForCausalLM", .qk_norm = QkNorm::share, .experts = Experts::mixtral},
    {.architecture = "MixtralForCausalLM", .windows = Windows::every, .experts = Experts::mixtral},
    {.architecture = "Qwen2MoeForCausalLM", .qkv_bias = {"qkv_bias", true}, .experts = Experts::qwen},
    {.architecture = "Qwen3MoeForCausalLM", .qk_norm = QkNorm::head, .qkv_bias = kAttentionBias, .experts = Experts::qwen},
    {.architecture = "Glm4MoeForCausalLM", .qk_norm = QkNorm::head, .qk_norm_key = "use_qk_norm", .qkv_bias = kAttentionBias, .experts = Experts::glm, .rotary_share = 0.5},
    {.architecture = "MiniMaxM2ForCausalLM", .qk_norm = QkNorm::share, .qkv_bias = kAttentionBias, .experts = Experts::minimax},
    {.architecture = "GptOssForCausalLM", .qkv_bias = {"attention_bias", true}, .out_bias = {"attention_bias", true}, .windows = Windows::alternate, .experts = Experts::gpt_oss},
    {.architecture = "Llama4ForCausalLM", .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .windows = Windows::chunked, .experts = Experts::llama4},
    {.architecture = "LagunaForCausalLM", .qk_norm = QkNorm::head, .experts = Experts::laguna},
    {.architecture = "MiMoV2FlashForCausalLM", .qkv_bias = kAttentionBias, .windows = Windows::hybrid_list, .experts = Experts::glm},
    {.architecture = "DeepseekForCausalLM", .qkv_bias = kAttentionBias, .experts = Experts::deepseek},
    {.architecture = "Ernie4_5ForCausalLM", .qkv_bias = {"use_bias", false}, .out_bias = {"use_bias", false}, .mlp_bias = {"use_bias", false}, .tied = true},
    {.architecture = "DeepseekV2ForCausalLM", .qkv_bias = kAttentionBias, .mixer = Mixer::latent, .experts = Experts::deepseek},
    {.architecture = "DeepseekV3ForCausalLM", .mixer = Mixer::latent, .experts = Experts::deepseek},
    {.architecture = "DeepseekV32ForCausalLM", .mixer = Mixer::latent, .experts = Experts::deepseek},
    {.architecture = "GlmMoeDsaForCausalLM", .mixer = Mixer::latent, .experts = Experts::deepseek},
    {.architecture = "Glm4MoeLiteForCausalLM", .mixer = Mixer::latent, .experts = Experts::deepseek},
    {.architecture = "DeepseekV4ForCausalLM", .mixer = Mixer::compressed, .experts = Experts::deepseek},
    {.architecture = "KimiLinearForCausalLM", .mixer = Mixer::kimi_delta, .experts = Experts::deepseek},
    {.architecture = "KimiK3ForCausalLM", .mixer = Mixer::kimi_delta3, .experts = Experts::deepseek},
    {.architecture = "Qwen3NextForCausalLM", .qk_norm = QkNorm::head, .qkv_bias = {"qkv_bias", false}, .mixer = Mixer::delta, .experts = Experts::qwen},
    {.architecture = "Qwen3_5ForCausalLM", .qk_norm = QkNorm::head, .qkv_bias = {"qkv_bias", false}, .mixer = Mixer::delta_split},
    {.architecture = "Qwen3_5MoeForCausalLM", .qk_norm = QkNorm::head, .qkv_bias = {"qkv_bias", false}, .mixer = Mixer::delta_split, .experts = Experts::qwen},
    {.architecture = "NemotronHForCausalLM", .norms = 1, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = kMlpBias, .gated = false, .positions = Positions::none, .mixer = Mixer::mamba_pattern, .experts = Experts::deepseek},
    {.architecture = "JambaForCausalLM", .positions = Positions::none, .mixer = Mixer::mamba_layers, .experts = Experts::mixtral},
    {.architecture = "MiniMaxM1ForCausalLM", .mixer = Mixer::lightning, .experts = Experts::mixtral},
    {.architecture = "MuseGlimmerForCausalLM", .norms = 4, .output_gate = true},
    {.architecture = "BertModel", .norm = Norm::layer, .qkv_bias = kAlways, .out_bias = kAlways, .mlp_bias = kAlways, .gated = false, .positions = Positions::learned, .pooling = true},
});

/// Other names of the same thing.
struct Alias {
  std::string_view name;
  std::string_view family;
};
constexpr auto kAliases = std::to_array<Alias>({
    {"LLaMAForCausalLM", "LlamaForCausalLM"},
    {"ChatGLMModel", "ChatGLMForConditionalGeneration"},
    {"GPTNeoXRewardModel", "GPTNeoXForCausalLM"},
    {"OPTModel", "OPTForCausalLM"},
    {"RWForCausalLM", "FalconForCausalLM"},
    {"BertForMaskedLM", "BertModel"},
    {"MPTForCausalLM", "MptForCausalLM"},
    {"BaiChuanForCausalLM", "BaichuanForCausalLM"},
    {"MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"},
    {"MuseGlimmerForConditionalGeneration", "MuseGlimmerForCausalLM"},
    {"MiMoForCausalLM", "Qwen2ForCausalLM"},
    {"DogeForCausalLM", "LlamaForCausalLM"},
    {"CwmForCausalLM", "LlamaForCausalLM"},
    {"AquilaForCausalLM", "LlamaForCausalLM"},
    {"AquilaModel", "LlamaForCausalLM"},
    {"YiForCausalLM", "LlamaForCausalLM"},
    {"TeleChat3ForCausalLM", "LlamaForCausalLM"},
    {"IQuestCoderForCausalLM", "LlamaForCausalLM"},
    {"GraniteSWAForCausalLM", "GraniteForCausalLM"},
});

}  // namespace

const Family* find_family(std::string_view architecture) {
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const Alias& a) { return a.name == architecture; });
  if (alias != kAliases.end()) architecture = alias->family;
  const auto row = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& family) {
    return family.architecture == architecture;
  });
  return row == kFamilies.end() ? nullptr : &*row;
}

}  // namespace plimsoll::plan
