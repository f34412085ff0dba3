// The language model within a config: its architecture, and what a multimodal wrapper knows of it.
#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "model/config.h"
#include "vllm/shapes/wrappers.h"

namespace plimsoll::vllm {

namespace {

/// A model_type's own architecture, for configs that name none; others are core/model's.
struct TypeName {
  const char* type;
  const char* architecture;
  bool above_wrapper = false;  // whatever the wrapper is called
};
constexpr auto kTypes = std::to_array<TypeName>({
    {"chatglm", "ChatGLMForConditionalGeneration"},
    {"deepseek_v4", "DeepseekV4ForCausalLM"},
    {"kimi_k2", "DeepseekV3ForCausalLM"},
    {"mistral4", "DeepseekV3ForCausalLM", true},
    {"glm4v_text", "Glm4ForCausalLM"},
    {"glm4v_moe_text", "Glm4MoeForCausalLM"},
    {"minicpm", "MiniCPMForCausalLM"},
    {"minimax_m3_text", "MiniMaxM3SparseForCausalLM"},
    {"muse_glimmer_text", "MuseGlimmerForCausalLM"},
});

const TypeName* find_type(const std::string& type) {
  const auto* const row = std::ranges::find(kTypes, type, &TypeName::type);
  return row == kTypes.end() ? nullptr : row;
}

std::string architecture_of_type(const std::string& type) {
  const TypeName* row = find_type(type);
  return row == nullptr ? model::architecture_of_type(type) : row->architecture;
}

/// MiniCPM-V's language model of each release.
struct VersionName {
  const char* version;
  const char* architecture;
};
constexpr const char* kUsualMiniCpm = "LlamaForCausalLM";
constexpr auto kMiniCpms = std::to_array<VersionName>(
    {{"2.0", "MiniCPMForCausalLM"}, {"2.6", "Qwen2ForCausalLM"}, {"4.5", "Qwen3ForCausalLM"}});

std::string mini_cpm_language(const ConfigView& config, const char* unnamed) {
  const std::string version = mini_cpm_version(config);
  if (version.empty()) return unnamed;
  const auto* const row = std::ranges::find(kMiniCpms, version, &VersionName::version);
  return row == kMiniCpms.end() ? kUsualMiniCpm : row->architecture;
}

/// The first release names no version: it is known by its width.
std::string language_of_mini_cpm_v(const ConfigView& config) {
  constexpr int64_t kFirstWidth = 2304;
  const bool first = config.integer({"hidden_size"}, 0) == kFirstWidth;
  return mini_cpm_language(config, first ? kMiniCpms.front().architecture : kUsualMiniCpm);
}

std::string language_of_mini_cpm_o(const ConfigView& config) {
  return mini_cpm_language(config, "Qwen2ForCausalLM");
}

/// Multimodal wrappers: their language models, and what they know better than those.
constexpr auto kWrappers = std::to_array<Wrapper>({
    {"AriaForConditionalGeneration", "AriaTextModel"},
    {.architecture = "Qwen2VLForConditionalGeneration",
     .language = "Qwen2ForCausalLM",
     .tied = Tied::either},
    {.architecture = "Qwen2_5_VLForConditionalGeneration",
     .language = "Qwen2ForCausalLM",
     .tied = Tied::either},
    {"LogicsForConditionalGeneration", "Qwen3ForCausalLM"},
    {"DeepseekOCR2ForCausalLM", "DeepseekForCausalLM"},
    {.architecture = "Qwen3VLForConditionalGeneration",
     .language = "Qwen3ForCausalLM",
     .counted_positions = true},
    {.architecture = "Qwen3VLMoeForConditionalGeneration",
     .language = "Qwen3MoeForCausalLM",
     .counted_positions = true},
    {.architecture = "Qwen3_5ForConditionalGeneration",
     .language = "Qwen3_5ForCausalLM",
     .tied = Tied::by_text},
    {.architecture = "Qwen3_5MoeForConditionalGeneration",
     .language = "Qwen3_5MoeForCausalLM",
     .tied = Tied::by_text},
    {.architecture = "Gemma3ForConditionalGeneration",
     .language = "Gemma3ForCausalLM",
     .tied = Tied::usually},
    {.architecture = "Gemma3nForConditionalGeneration",
     .language = "Gemma3nForCausalLM",
     .tied = Tied::usually},
    {.architecture = "Gemma4ForConditionalGeneration",
     .language = "Gemma4ForCausalLM",
     .tied = Tied::usually,
     .whole_videos = true},
    {.architecture = "Gemma4UnifiedForConditionalGeneration",
     .language = "Gemma4ForCausalLM",
     .tied = Tied::usually,
     .whole_videos = true},
    {"Llama4ForConditionalGeneration", "Llama4ForCausalLM"},
    {.architecture = "Mistral3ForConditionalGeneration",
     .language = "MistralForCausalLM",
     .tied = Tied::usually},
    {"KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM"},
    {"KimiK3ForConditionalGeneration", "KimiK3ForCausalLM"},
    {"MuseGlimmerForConditionalGeneration", "MuseGlimmerForCausalLM"},
    {"MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3SparseForCausalLM"},
    {.architecture = "Idefics3ForConditionalGeneration",
     .language = "LlamaForCausalLM",
     .tied = Tied::by_text},
    {"Qwen2AudioForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen2_5OmniForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen2_5OmniModel", "Qwen2ForCausalLM"},
    {.architecture = "Glm4vForConditionalGeneration",
     .language = "Glm4ForCausalLM",
     .tied = Tied::either},
    {"Glm4vMoeForConditionalGeneration", "Glm4MoeForCausalLM"},
    {"KimiVLForConditionalGeneration", "DeepseekV3ForCausalLM"},
    {"Qwen3OmniMoeForConditionalGeneration", "Qwen3MoeForCausalLM"},
    {"Qwen3ASRForConditionalGeneration", "Qwen3ForCausalLM"},
    {"KeyeForConditionalGeneration", "Qwen3ForCausalLM"},
    {"KeyeVL1_5ForConditionalGeneration", "Qwen3ForCausalLM"},
    {"DotsOCRForCausalLM", "Qwen2ForCausalLM"},
    {.architecture = "PaddleOCRVLForConditionalGeneration",
     .language = "Ernie4_5ForCausalLM",
     .tied = Tied::either},
    {.architecture = "GlmOcrForConditionalGeneration",
     .language = "Glm4ForCausalLM",
     .tied = Tied::either},
    {"GLM4VForCausalLM", "ChatGLMForConditionalGeneration"},
    {"Phi3VForCausalLM", "Phi3ForCausalLM"},
    {"Phi4MMForCausalLM", "Phi3ForCausalLM"},
    {"DeepseekOCRForCausalLM", "DeepseekForCausalLM"},
    {"MolmoForCausalLM", "Qwen2ForCausalLM", true},
    {"Molmo2ForConditionalGeneration", "Molmo2TextModel"},
    {"Exaone4_5_ForConditionalGeneration", "Exaone4ForCausalLM"},
    {.architecture = "Cosmos3ForConditionalGeneration",
     .language = "Qwen3ForCausalLM",
     .counted_positions = true},
    {.architecture = "InternS2PreviewForConditionalGeneration",
     .language = "Qwen3_5MoeForCausalLM",
     .tied = Tied::by_text},
    {.architecture = "IsaacForConditionalGeneration",
     .language = "Qwen3ForCausalLM",
     .in_sections = true},
    {"BagelForConditionalGeneration", "Qwen2ForCausalLM"},
    {"UnlimitedOCRForCausalLM", "DeepseekForCausalLM"},
    {"Qwen3ASRRealtimeGeneration", "Qwen3ForCausalLM"},
    {"Step3VLForConditionalGeneration", "Step3TextForCausalLM"},
    {.architecture = "SmolVLMForConditionalGeneration", .tied = Tied::by_text},
    {.architecture = "MiniCPMV4_6ForConditionalGeneration", .tied = Tied::by_text},
    {.architecture = "InternVLForConditionalGeneration", .tied = Tied::usually},
    {.architecture = "LlavaForConditionalGeneration", .tied = Tied::either},
    {.architecture = "LlavaNextVideoForConditionalGeneration", .tied = Tied::either},
    {.architecture = "LlavaOnevisionForConditionalGeneration", .tied = Tied::either},
    {.architecture = "Cohere2VisionForConditionalGeneration", .tied = Tied::usually},
    {.architecture = "PaliGemmaForConditionalGeneration", .tied = Tied::usually},
    {.architecture = "Lfm2VlForConditionalGeneration", .tied = Tied::usually},
    {.architecture = "LocateAnythingForConditionalGeneration", .tied = Tied::never},
    {.architecture = "MiniCPMV", .language_of = language_of_mini_cpm_v},
    {.architecture = "MiniCPMO", .language_of = language_of_mini_cpm_o},
});

constexpr Keys kTextKeys = {"text_config", "llm_config", "language_config",
                            "language_model_config"};

std::string first_architecture(const ConfigView& config) {
  const std::vector<std::string> names = config.texts({"architectures"});
  return names.empty() ? std::string() : names.front();
}

/// Heads without latents: the attention of the first DeepSeek.
bool has_whole_heads(const ConfigView& text) {
  return text.has("qk_nope_head_dim") &&
         text.integer({"qk_nope_head_dim"}, 0) + text.integer({"qk_rope_head_dim"}, 0) == 0;
}

/// Language models whose config within a wrapper names another than it describes.
struct Variant {
  const char* architecture;
  const char* language;
  bool (*holds)(const ConfigView& text);
};
constexpr auto kVariants =
    std::to_array<Variant>({{"DeepseekV2ForCausalLM", "DeepseekForCausalLM", has_whole_heads}});

}  // namespace

const Wrapper* find_wrapper(const std::string& architecture) {
  const auto* const row = std::ranges::find(kWrappers, architecture, &Wrapper::architecture);
  return row == kWrappers.end() ? nullptr : row;
}

std::string language_architecture(const ConfigView& config, const std::string& outer) {
  const TypeName* type = find_type(text_config(config).text({"model_type"}, ""));
  if (type != nullptr && type->above_wrapper) return type->architecture;
  if (const Wrapper* wrapper = find_wrapper(outer)) {
    if (wrapper->language_of != nullptr) return wrapper->language_of(config);
    if (wrapper->language != nullptr) return wrapper->language;
  }
  if (is_language_model(outer)) return outer;
  const ConfigView text = text_config(config);
  std::string own = first_architecture(text);
  const auto* const variant = std::ranges::find(kVariants, own, &Variant::architecture);
  if (variant != kVariants.end() && variant->holds(text)) return variant->language;
  if (is_language_model(own)) return own;
  std::string by_type = architecture_of_type(text.text({"model_type"}, ""));
  if (!by_type.empty()) return by_type;
  return architecture_of_type(config.text({"model_type"}, ""));
}

bool has_unknown_tower(const ConfigView& config, const std::string& architecture) {
  const bool encoder =
      config.has_child({"vision_config", "audio_config", "encoder_config", "sound_config",
                        "vision_tower", "thinker_config", "vlm_config"});
  return encoder && !is_language_model(architecture) && !is_known_tower(architecture);
}

std::string mini_cpm_version(const ConfigView& config) {
  if (!config.has("version")) return "";
  return config.is_text("version") ? config.text({"version"}, "")
                                   : fmt::format("{:.1f}", config.number({"version"}, 0));
}

ConfigView text_config(const ConfigView& config) {
  if (config.has_child({"thinker_config"})) return text_config(config.child({"thinker_config"}));
  if (config.has_child(kTextKeys)) return config.child(kTextKeys);
  return config;
}

std::string architecture_name(const ConfigView& config) {
  std::string named = first_architecture(config);
  if (!named.empty()) return named;
  return architecture_of_type(config.text({"model_type"}, ""));
}

const Family* language_row(const ConfigView& config) {
  return find_family(language_architecture(config, architecture_name(config)));
}

bool reads_whole_prompts(const ConfigView& config) {
  const Family* family = language_row(config);
  if (family != nullptr && (family->pooling || family->mixer == Mixer::crossed)) return true;
  return classifies_steps(architecture_name(config));
}

bool is_known_architecture(const ConfigView& config) {
  const std::string name = architecture_name(config);
  return is_language_model(language_architecture(config, name)) && !has_unknown_tower(config, name);
}

std::optional<bool> tied_by_wrapper(const ConfigView& config, const std::string& name, bool usual) {
  const Wrapper* wrapper = find_wrapper(name);
  if (wrapper != nullptr && wrapper->tied == Tied::never) return false;
  const bool within = &text_config(config).json() != &config.json();
  if (!within || (wrapper == nullptr && is_language_model(name))) return std::nullopt;
  if (wrapper != nullptr && wrapper->tied == Tied::by_text) return std::nullopt;
  if (wrapper != nullptr && wrapper->tied == Tied::either) {
    return usual || config.flag({"tie_word_embeddings"}, false);
  }
  usual |= wrapper != nullptr && wrapper->tied == Tied::usually;
  return config.flag({"tie_word_embeddings"}, usual);
}

namespace {

/// Has RoPE turn sections, of half the head's numbers together.
void divide_positions(nlohmann::json& text, int64_t head_size) {
  nlohmann::json& rope = text[text.contains("rope_scaling") ? "rope_scaling" : "rope_parameters"];
  if (!rope.is_object()) rope = nlohmann::json::object();
  rope["mrope_section"] = {head_size / 4, head_size / 8, head_size / 8};
}

}  // namespace

nlohmann::json wrapped_text(const ConfigView& config, const std::string& name) {
  const ConfigView text = text_config(config);
  nlohmann::json inner = nlohmann::json::object();
  for (const auto& [key, value] : text.json().items()) {
    if (key != "quantization_config") inner[key] = value;  // it may be long, and says nothing here
  }
  const Wrapper* wrapper = find_wrapper(name);
  if (wrapper != nullptr && wrapper->both_widths) {
    inner["intermediate_size"] = text.required({"intermediate_size"}) / 2;
  }
  if (wrapper != nullptr && wrapper->in_sections) {
    divide_positions(inner, text.integer({"head_dim"}, 128, {8, 1 << 20}));
  }
  constexpr const char* kTied = "tie_word_embeddings";
  const bool own = text.has(kTied);
  const auto tied = tied_by_wrapper(config, name, own && text.flag({kTied}, false));
  const bool never = wrapper != nullptr && wrapper->tied == Tied::never;
  if (tied && (*tied || own || config.has(kTied) || never)) inner[kTied] = *tied;
  return inner;
}

}  // namespace plimsoll::vllm
