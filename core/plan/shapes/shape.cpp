// From a config to the row of the family table, and from there to a model's shape.
#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "plan/shapes/builder.h"

namespace plimsoll::plan {

void build_decoder(Builder& build);

namespace {

/// A model_type's own architecture, for configs that name none.
struct TypeName {
  const char* type;
  const char* architecture;
};
constexpr auto kTypes = std::to_array<TypeName>({
    {"llama", "LlamaForCausalLM"},
    {"mistral", "MistralForCausalLM"},
    {"mixtral", "MixtralForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen2_moe", "Qwen2MoeForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"},
    {"qwen3_next", "Qwen3NextForCausalLM"},
    {"qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"gemma", "GemmaForCausalLM"},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3_text", "Gemma3ForCausalLM"},
    {"gemma3n_text", "Gemma3nForCausalLM"},
    {"gemma4_text", "Gemma4ForCausalLM"},
    {"phi", "PhiForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"gpt2", "GPT2LMHeadModel"},
    {"gpt_neox", "GPTNeoXForCausalLM"},
    {"gpt_oss", "GptOssForCausalLM"},
    {"opt", "OPTForCausalLM"},
    {"bloom", "BloomForCausalLM"},
    {"mpt", "MptForCausalLM"},
    {"falcon", "FalconForCausalLM"},
    {"cohere", "CohereForCausalLM"},
    {"cohere2", "Cohere2ForCausalLM"},
    {"chatglm", "ChatGLMForConditionalGeneration"},
    {"glm4_moe", "Glm4MoeForCausalLM"},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM"},
    {"glm_moe_dsa", "GlmMoeDsaForCausalLM"},
    {"granite", "GraniteForCausalLM"},
    {"granitemoe", "GraniteMoeForCausalLM"},
    {"granitemoehybrid", "GraniteMoeHybridForCausalLM"},
    {"internlm2", "InternLM2ForCausalLM"},
    {"llama4_text", "Llama4ForCausalLM"},
    {"deepseek_v2", "DeepseekV2ForCausalLM"},
    {"deepseek_v3", "DeepseekV3ForCausalLM"},
    {"deepseek_v32", "DeepseekV32ForCausalLM"},
    {"deepseek_v4", "DeepseekV4ForCausalLM"},
    {"kimi_k2", "DeepseekV3ForCausalLM"},
    {"mistral4", "DeepseekV3ForCausalLM"},
    {"kimi_linear", "KimiLinearForCausalLM"},
    {"nemotron_h", "NemotronHForCausalLM"},
    {"smollm3", "SmolLM3ForCausalLM"},
    {"apertus", "ApertusForCausalLM"},
    {"ernie4_5", "Ernie4_5ForCausalLM"},
    {"ernie4_5_moe", "Ernie4_5_MoeForCausalLM"},
    {"exaone4", "Exaone4ForCausalLM"},
    {"exaone_moe", "ExaoneMoeForCausalLM"},
    {"falcon_h1", "FalconH1ForCausalLM"},
    {"falcon_mamba", "FalconMambaForCausalLM"},
    {"glm", "GlmForCausalLM"},
    {"glm4", "Glm4ForCausalLM"},
    {"glm4v_text", "Glm4ForCausalLM"},
    {"glm4v_moe_text", "Glm4MoeForCausalLM"},
    {"jamba", "JambaForCausalLM"},
    {"lfm2", "Lfm2ForCausalLM"},
    {"lfm2_moe", "Lfm2MoeForCausalLM"},
    {"mamba", "MambaForCausalLM"},
    {"mamba2", "Mamba2ForCausalLM"},
    {"minicpm", "MiniCPMForCausalLM"},
    {"minicpm3", "MiniCPM3ForCausalLM"},
    {"nemotron", "NemotronForCausalLM"},
    {"olmo", "OlmoForCausalLM"},
    {"olmo2", "Olmo2ForCausalLM"},
    {"olmo3", "Olmo2ForCausalLM"},
    {"olmoe", "OlmoeForCausalLM"},
    {"seed_oss", "SeedOssForCausalLM"},
    {"gptj", "GPTJForCausalLM"},
    {"gpt_bigcode", "GPTBigCodeForCausalLM"},
    {"dbrx", "DbrxForCausalLM"},
    {"stablelm", "StableLmForCausalLM"},
    {"starcoder2", "Starcoder2ForCausalLM"},
    {"minimax_m2", "MiniMaxM2ForCausalLM"},
    {"minimax_m3_text", "MiniMaxM3SparseForCausalLM"},
    {"muse_glimmer_text", "MuseGlimmerForCausalLM"},
});

std::string architecture_of_type(const std::string& type) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(),
                                [&](const TypeName& name) { return type == name.type; });
  return row == kTypes.end() ? std::string() : row->architecture;
}

/// Multimodal wrappers whose language model has a plain architecture.
struct Wrapper {
  const char* architecture;
  const char* language;
  bool both_widths = false;        // as Family's
  bool counted_positions = false;  // likewise
};
constexpr auto kWrappers = std::to_array<Wrapper>({
    {"AriaForConditionalGeneration", "AriaTextModel"},
    {"Qwen2VLForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen2_5_VLForConditionalGeneration", "Qwen2ForCausalLM"},
    {"LogicsForConditionalGeneration", "Qwen3ForCausalLM"},
    {"DeepseekOCR2ForCausalLM", "DeepseekForCausalLM"},
    {.architecture = "Qwen3VLForConditionalGeneration",
     .language = "Qwen3ForCausalLM",
     .counted_positions = true},
    {.architecture = "Qwen3VLMoeForConditionalGeneration",
     .language = "Qwen3MoeForCausalLM",
     .counted_positions = true},
    {"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"},
    {"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"},
    {"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"},
    {"Gemma3nForConditionalGeneration", "Gemma3nForCausalLM"},
    {"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"},
    {"Llama4ForConditionalGeneration", "Llama4ForCausalLM"},
    {"Mistral3ForConditionalGeneration", "MistralForCausalLM"},
    {"KimiK25ForConditionalGeneration", "DeepseekV3ForCausalLM"},
    {"KimiK3ForConditionalGeneration", "KimiK3ForCausalLM"},
    {"MuseGlimmerForConditionalGeneration", "MuseGlimmerForCausalLM"},
    {"MiniMaxM3SparseForConditionalGeneration", "MiniMaxM3SparseForCausalLM"},
    {"Idefics3ForConditionalGeneration", "LlamaForCausalLM"},
    {"Qwen2AudioForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen2_5OmniForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen2_5OmniModel", "Qwen2ForCausalLM"},
    {"Glm4vForConditionalGeneration", "Glm4ForCausalLM"},
    {"Glm4vMoeForConditionalGeneration", "Glm4MoeForCausalLM"},
    {"KimiVLForConditionalGeneration", "DeepseekV3ForCausalLM"},
    {"Qwen3OmniMoeForConditionalGeneration", "Qwen3MoeForCausalLM"},
    {"Qwen3ASRForConditionalGeneration", "Qwen3ForCausalLM"},
    {"KeyeForConditionalGeneration", "Qwen3ForCausalLM"},
    {"KeyeVL1_5ForConditionalGeneration", "Qwen3ForCausalLM"},
    {"DotsOCRForCausalLM", "Qwen2ForCausalLM"},
    {"PaddleOCRVLForConditionalGeneration", "Ernie4_5ForCausalLM"},
    {"GlmOcrForConditionalGeneration", "Glm4ForCausalLM"},
    {"GLM4VForCausalLM", "ChatGLMForConditionalGeneration"},
    {"Phi3VForCausalLM", "MistralForCausalLM"},
    {"Phi4MMForCausalLM", "MistralForCausalLM"},
    {"DeepseekOCRForCausalLM", "DeepseekForCausalLM"},
    {"MolmoForCausalLM", "Qwen2ForCausalLM", true},
    {"Molmo2ForConditionalGeneration", "Molmo2TextModel"},
    {"Exaone4_5_ForConditionalGeneration", "Exaone4ForCausalLM"},
});

/// Wrappers whose config class ties the output to the embedding where the config is silent.
constexpr auto kTiedWrappers = std::to_array<std::string_view>(
    {"InternVLForConditionalGeneration", "Mistral3ForConditionalGeneration",
     "Cohere2VisionForConditionalGeneration", "Gemma3ForConditionalGeneration",
     "Gemma3nForConditionalGeneration", "Gemma4ForConditionalGeneration",
     "PaliGemmaForConditionalGeneration", "Lfm2VlForConditionalGeneration"});

/// One that has a head of its own whatever the config says.
constexpr std::string_view kUntiedWrapper = "LocateAnythingForConditionalGeneration";

const Wrapper* find_wrapper(const std::string& architecture) {
  const auto* const row = std::ranges::find(kWrappers, architecture, &Wrapper::architecture);
  return row == kWrappers.end() ? nullptr : row;
}

constexpr Keys kTextKeys = {"text_config", "llm_config", "language_config",
                            "language_model_config"};

std::string first_architecture(const ConfigView& config) {
  const std::vector<std::string> names = config.texts({"architectures"});
  return names.empty() ? std::string() : names.front();
}

/// MiniCPM-V changed its language model from release to release.
std::string mini_cpm_language(const ConfigView& config, bool omni) {
  const std::string version = mini_cpm_version(config);
  if (version.empty() && omni) return "Qwen2ForCausalLM";
  if (version.empty()) {
    return config.integer({"hidden_size"}, 0) == 2304 ? "MiniCPMForCausalLM" : "LlamaForCausalLM";
  }
  if (version == "2.0") return "MiniCPMForCausalLM";
  if (version == "2.6") return "Qwen2ForCausalLM";
  if (version == "4.5") return "Qwen3ForCausalLM";
  return "LlamaForCausalLM";
}

/// The language model's own architecture inside a wrapper.
std::string language_architecture(const ConfigView& config, const std::string& outer) {
  if (text_config(config).text({"model_type"}, "") == "mistral4") return "DeepseekV3ForCausalLM";
  if (outer == "MiniCPMV" || outer == "MiniCPMO")
    return mini_cpm_language(config, outer == "MiniCPMO");
  if (const Wrapper* wrapper = find_wrapper(outer)) return wrapper->language;
  if (find_family(outer) != nullptr) return outer;
  const ConfigView text = text_config(config);
  std::string own = first_architecture(text);
  // Heads without latents: the attention of the first DeepSeek.
  if (own == "DeepseekV2ForCausalLM" && text.has("qk_nope_head_dim") &&
      text.integer({"qk_nope_head_dim"}, 0) + text.integer({"qk_rope_head_dim"}, 0) == 0)
    return "DeepseekForCausalLM";
  if (find_family(own) != nullptr) return own;
  std::string by_type = architecture_of_type(text.text({"model_type"}, ""));
  if (!by_type.empty()) return by_type;
  return architecture_of_type(config.text({"model_type"}, ""));
}

/// Gemma and GPT-2 use the norms' and positions' own names; an unknown decoder is read as Llama.
const Family* nearest_kin(const ConfigView& text) {
  const bool decoder = text.has("num_hidden_layers") && text.has("hidden_size") &&
                       text.has("num_attention_heads") && text.has("vocab_size") &&
                       text.has("intermediate_size");
  return decoder ? find_family("LlamaForCausalLM") : nullptr;
}

/// A wrapper with an encoder that no row describes.
bool has_unknown_tower(const ConfigView& config, const std::string& architecture) {
  const bool encoder =
      config.has_child({"vision_config", "audio_config", "encoder_config", "sound_config",
                        "vision_tower", "thinker_config", "vlm_config"});
  return encoder && find_family(architecture) == nullptr && !is_known_tower(architecture);
}

}  // namespace

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

bool reads_whole_prompts(const ConfigView& config) {
  const std::string name = architecture_name(config);
  const Family* family = find_family(language_architecture(config, name));
  if (family != nullptr && (family->pooling || family->mixer == Mixer::crossed)) return true;
  return name == "Qwen2ForProcessRewardModel";
}

bool is_known_architecture(const ConfigView& config) {
  const std::string name = architecture_name(config);
  return find_family(language_architecture(config, name)) != nullptr &&
         !has_unknown_tower(config, name);
}

ModelShape build_shape(const ConfigView& config, const ShapeOptions& options,
                       RankWeights& weights) {
  ModelShape shape;
  shape.architecture = architecture_name(config);
  const ConfigView text = text_config(config);
  const Family* family = find_family(language_architecture(config, shape.architecture));
  if (family == nullptr) {
    family = nearest_kin(text);
    if (family == nullptr) {
      fail(ExitCode::checkpoint_unusable,
           "{}: the architecture \"{}\" is not known, and the config does not describe a decoder "
           "(hidden_size, num_hidden_layers, num_attention_heads, intermediate_size, vocab_size)",
           config.path(), shape.architecture.empty() ? "(none named)" : shape.architecture);
    }
    shape.estimated = true;
    shape.note = "unknown architecture, read as a Llama-like decoder";
  }
  shape.family = family->architecture;
  if (const char* key = family->unmodelled_key; key != nullptr && text.integer({key}, 0) > 0) {
    fail(ExitCode::checkpoint_unusable, "{}: {} with \"{}\" is not modelled", config.path(),
         shape.family, key);
  }
  weights.set_expert_parallel(options.expert_parallel);
  weights.set_lora(options.lora_slots, options.lora_rank);
  shape.activation.int8_activations = weights.quantization().int8_activations();
  Builder build{text, options, *family, weights, shape, read_dims(text, *family), {}};
  build.layer_types = text.texts({"layer_types"});
  const Wrapper* wrapper = find_wrapper(shape.architecture);
  if (wrapper != nullptr && wrapper->both_widths) build.dims.intermediate /= 2;
  build.counted_positions =
      family->counted_positions || (wrapper != nullptr && wrapper->counted_positions);
  // A multimodal model's outer config decides, not the one of its language model.
  const bool whole = wrapper != nullptr || find_family(shape.architecture) == nullptr;
  if (whole && &text.json() != &config.json()) {
    const bool usual = std::find(kTiedWrappers.begin(), kTiedWrappers.end(), shape.architecture) !=
                           kTiedWrappers.end() ||
                       build.dims.tied;
    build.dims.tied = config.flag({"tie_word_embeddings"}, usual);
  }
  if (shape.architecture == kUntiedWrapper) build.dims.tied = false;
  shape.layers = build.dims.layers;
  shape.hidden = build.dims.hidden;
  shape.heads = build.dims.heads;
  shape.kv_heads = build.dims.kv_heads;
  shape.head_size = build.dims.head_size;
  shape.vocabulary = build.dims.vocabulary;
  shape.pooling = family->pooling;
  shape.activation.hidden = build.dims.hidden;
  shape.activation.vocabulary = build.dims.vocabulary;
  build_decoder(build);
  shape.multimodal = add_towers(config, shape.architecture, build);  // on every stage
  if (has_unknown_tower(config, shape.architecture)) {
    shape.estimated = true;
    if (!shape.note.empty()) shape.note += "; ";
    shape.note += "the encoder of " + shape.architecture +
                  " is not known: its weights and memory are not in the plan";
  }
  return shape;
}

}  // namespace plimsoll::plan
