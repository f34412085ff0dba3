#include "vllm/shapes/families.h"

#include <algorithm>
#include <array>

#include "model/config.h"

namespace plimsoll::vllm {
namespace {

/// Other names of the same thing.
struct Alias {
  std::string_view name;
  std::string_view family;
};
constexpr auto kAliases = std::to_array<Alias>({
    {"GPTNeoXRewardModel", "GPTNeoXForCausalLM"},
    {"OPTModel", "OPTForCausalLM"},
    {"RWForCausalLM", "FalconForCausalLM"},
    {"BertForMaskedLM", "BertModel"},
    {"BertForSequenceClassification", "BertModel"},
    {"BertForTokenClassification", "BertModel"},
    {"BertSpladeSparseEmbeddingModel", "BertModel"},
    {"RobertaModel", "BertModel"},
    {"RobertaForMaskedLM", "BertModel"},
    {"RobertaForSequenceClassification", "BertModel"},
    {"RobertaForTokenClassification", "BertModel"},
    {"XLMRobertaModel", "BertModel"},
    {"XLMRobertaForSequenceClassification", "BertModel"},
    {"XLMRobertaForTokenClassification", "BertModel"},
    {"BgeM3EmbeddingModel", "BertModel"},
    {"GteModel", "GteNewModel"},
    {"GteNewForSequenceClassification", "GteNewModel"},
    {"ModernBertForSequenceClassification", "ModernBertModel"},
    {"ModernBertForTokenClassification", "ModernBertModel"},
    {"MPTForCausalLM", "MptForCausalLM"},
    {"MuseGlimmerForConditionalGeneration", "MuseGlimmerForCausalLM"},
    {"YiForCausalLM", "LlamaForCausalLM"},
    {"SolarForCausalLM", "LlamaForCausalLM"},
    {"NanbeigeForCausalLM", "LlamaForCausalLM"},
    {"MossForCausalLM", "GPTJForCausalLM"},
    {"MistralLarge3ForCausalLM", "DeepseekV3ForCausalLM"},
    {"MiMoV2ForCausalLM", "MiMoV2FlashForCausalLM"},
    {"NemotronHPuzzleForCausalLM", "NemotronHForCausalLM"},
    {"LlamaModel", "LlamaForCausalLM"},
    {"MistralModel", "MistralForCausalLM"},
    {"Qwen2Model", "Qwen2ForCausalLM"},
    {"Qwen3Model", "Qwen3ForCausalLM"},
    {"Gemma2Model", "Gemma2ForCausalLM"},
    {"Gemma3TextModel", "Gemma3ForCausalLM"},
});

}  // namespace

std::string_view resolved_architecture(std::string_view architecture) {
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(),
                                  [&](const Alias& a) { return a.name == architecture; });
  return alias != kAliases.end() ? alias->family : architecture;
}

bool is_language_model(std::string_view architecture) {
  return find_family(architecture) != nullptr ||
         model::is_language_model(resolved_architecture(architecture));
}

const Family* find_family(std::string_view architecture) {
  architecture = resolved_architecture(architecture);
  for (const std::span<const Family> families : {dense_families(), mixed_families()}) {
    const auto row = std::find_if(families.begin(), families.end(), [&](const Family& family) {
      return family.architecture == architecture;
    });
    if (row != families.end()) return &*row;
  }
  return nullptr;
}

}  // namespace plimsoll::vllm
