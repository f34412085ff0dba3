#include "model/families/families.h"

#include <array>

namespace plimsoll::model {

std::span<const Family> families() {
  constexpr FamilyKind kMultimodal = FamilyKind::multimodal;
  constexpr FamilyKind kText = FamilyKind::text;
  static constexpr std::array kFamilies = {
      Family{"ApertusForCausalLM", "apertus", make_apertus},
      Family{"ArceeForCausalLM", "arcee", make_arcee},
      Family{"BambaForCausalLM", "bamba", make_bamba},
      Family{"BloomForCausalLM", "bloom", make_bloom},
      Family{"CodeGenForCausalLM", "codegen", make_codegen},
      Family{"Cohere2ForCausalLM", "cohere2", make_cohere2},
      Family{"CohereForCausalLM", "cohere", make_cohere, kText, "use_qk_norm"},
      Family{"CwmForCausalLM", "cwm", make_cwm},
      Family{"Ernie4_5ForCausalLM", "ernie4_5", make_ernie4_5},
      Family{"Exaone4ForCausalLM", "exaone4", make_exaone4},
      Family{"FalconForCausalLM", "falcon", make_falcon, kText, "alibi"},
      Family{"FalconH1ForCausalLM", "falcon_h1", make_falcon_h1},
      Family{"FalconMambaForCausalLM", "falcon_mamba", make_falcon_mamba},
      Family{"GPT2LMHeadModel", "gpt2", make_gpt2},
      Family{"GPTBigCodeForCausalLM", "gpt_bigcode", make_gpt_bigcode},
      Family{"GPTJForCausalLM", "gptj", make_gptj},
      Family{"GPTNeoXForCausalLM", "gpt_neox", make_gpt_neox},
      Family{"Gemma2ForCausalLM", "gemma2", make_gemma2},
      Family{"Gemma3ForCausalLM", "gemma3_text", make_gemma3},
      Family{"Gemma3ForConditionalGeneration", "gemma3", make_gemma3_multimodal, kMultimodal},
      Family{"GemmaForCausalLM", "gemma", make_gemma},
      Family{"Glm4ForCausalLM", "glm4", make_glm4},
      Family{"GlmForCausalLM", "glm", make_glm},
      Family{"GraniteForCausalLM", "granite", make_granite},
      Family{"GraniteMoeHybridForCausalLM", "granitemoehybrid", make_granite_hybrid},
      Family{"GraniteSWAForCausalLM", "granite_swa", make_granite_swa},
      Family{"HeliumForCausalLM", "helium", make_helium},
      Family{"HunYuanDenseV1ForCausalLM", "hunyuan_v1_dense", make_hunyuan_dense},
      Family{"HyperCLOVAXForCausalLM", "hyperclovax", make_hyperclovax},
      Family{"Idefics3ForConditionalGeneration", "idefics3", make_idefics3, kMultimodal},
      Family{"InternLM2ForCausalLM", "internlm2", make_internlm2},
      Family{"InternLM3ForCausalLM", "internlm3", make_internlm3},
      Family{"InternVLChatModel", "internvl_chat", make_internvl, kMultimodal},
      Family{"Jais2ForCausalLM", "jais2", make_jais2},
      Family{"LLaMAForCausalLM", "", make_llama},  // the first conversions' spelling
      Family{"Lfm2ForCausalLM", "lfm2", make_lfm2},
      Family{"LlamaForCausalLM", "llama", make_llama},
      Family{"LlavaForConditionalGeneration", "llava", make_llava, kMultimodal},
      Family{"Mamba2ForCausalLM", "mamba2", make_mamba2},
      Family{"MambaForCausalLM", "mamba", make_mamba},
      Family{"Ministral3ForCausalLM", "ministral3", make_ministral3},
      Family{"MistralForCausalLM", "mistral", make_mistral},
      Family{"MixtralForCausalLM", "mixtral", make_mixtral},
      Family{"MptForCausalLM", "mpt", make_mpt},
      Family{"NemotronForCausalLM", "nemotron", make_nemotron},
      Family{"NemotronHForCausalLM", "nemotron_h", make_nemotron_h},
      Family{"OPTForCausalLM", "opt", make_opt},
      Family{"Olmo2ForCausalLM", "olmo2", make_olmo2},
      Family{"Olmo3ForCausalLM", "olmo3", make_olmo3},
      Family{"OlmoForCausalLM", "olmo", make_olmo},
      Family{"OlmoHybridForCausalLM", "olmo_hybrid", make_olmo_hybrid},
      Family{"PersimmonForCausalLM", "persimmon", make_persimmon, kText, "qk_layernorm"},
      Family{"Phi3ForCausalLM", "phi3", make_phi3},
      Family{"PhiForCausalLM", "phi", make_phi},
      Family{"Qwen2ForCausalLM", "qwen2", make_qwen2},
      Family{"Qwen2VLForConditionalGeneration", "qwen2_vl", make_qwen2_vl, kMultimodal},
      Family{"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", make_qwen2_5_vl, kMultimodal},
      Family{"Qwen3ForCausalLM", "qwen3", make_qwen3},
      Family{"Qwen3MoeForCausalLM", "qwen3_moe", make_qwen3_moe},
      Family{"Qwen3_5ForCausalLM", "qwen3_5_text", make_qwen3_5},
      Family{"SeedOssForCausalLM", "seed_oss", make_seed_oss},
      Family{"SmolLM3ForCausalLM", "smollm3", make_smollm3, kText, "no_rope_layers"},
      Family{"SmolVLMForConditionalGeneration", "smolvlm", make_idefics3, kMultimodal},
      Family{"StableLmForCausalLM", "stablelm", make_stablelm, kText, "qk_layernorm"},
      Family{"Starcoder2ForCausalLM", "starcoder2", make_starcoder2},
      Family{"VaultGemmaForCausalLM", "vaultgemma", make_vaultgemma},
  };
  return kFamilies;
}

}  // namespace plimsoll::model
