#include "model/families/families.h"

#include <array>

namespace plimsoll::model {

std::span<const Family> families() {
  constexpr FamilyKind kMultimodal = FamilyKind::multimodal;
  static constexpr std::array kFamilies = {
      Family{"GPT2LMHeadModel", "gpt2", make_gpt2},
      Family{"Gemma2ForCausalLM", "gemma2", make_gemma2},
      Family{"Gemma3ForCausalLM", "gemma3_text", make_gemma3},
      Family{"Gemma3ForConditionalGeneration", "gemma3", make_gemma3_multimodal, kMultimodal},
      Family{"InternLM2ForCausalLM", "internlm2", make_internlm2},
      Family{"InternVLChatModel", "internvl_chat", make_internvl, kMultimodal},
      Family{"LLaMAForCausalLM", "", make_llama},  // the first conversions' spelling
      Family{"LlamaForCausalLM", "llama", make_llama},
      Family{"LlavaForConditionalGeneration", "llava", make_llava, kMultimodal},
      Family{"MistralForCausalLM", "mistral", make_mistral},
      Family{"MixtralForCausalLM", "mixtral", make_mixtral},
      Family{"OPTForCausalLM", "opt", make_opt},
      Family{"Phi3ForCausalLM", "phi3", make_phi3},
      Family{"Qwen2ForCausalLM", "qwen2", make_qwen2},
      Family{"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", make_qwen2_5_vl, kMultimodal},
      Family{"Qwen3ForCausalLM", "qwen3", make_qwen3},
      Family{"Qwen3MoeForCausalLM", "qwen3_moe", make_qwen3_moe},
  };
  return kFamilies;
}

}  // namespace plimsoll::model
