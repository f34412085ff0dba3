// Sources: sglang/srt/configs/model_config.py and the classes of sglang/srt/models of 0.5.23.
#include "engines/sglang/models.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace plimsoll::engines::sglang {
namespace {

using Names = std::span<const std::string_view>;

bool is_in(Names names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// A name of the table begins the architecture: classes of one family differ in their ending.
bool begins(Names names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view n) { return name.starts_with(n); });
}

constexpr std::string_view kLatentModels[] = {
    "DeepseekV2",    "DeepseekV3", "Glm4MoeLite", "GlmMoeDsa",     "KimiK25",
    "KimiVL",        "KimiLinear", "KimiK3",      "LongcatFlash",  "MiniCPM3",
    "MistralLarge3", "AXK1",       "SarvamMLA",   "BailingMoeV2_5"};

constexpr std::string_view kSparse[] = {"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"};

constexpr std::string_view kHybrid[] = {
    "Qwen3Next",        "Qwen3_5", "NemotronH", "KimiLinear",  "KimiK3",          "FalconH1",
    "GraniteMoeHybrid", "Bamba",   "Lfm2",      "JetNemotron", "BailingMoeLinear"};

constexpr std::string_view kExtraBuffer[] = {"Qwen3Next",        "Qwen3_5", "NemotronH",
                                             "KimiLinear",       "KimiK3",  "FalconH1",
                                             "GraniteMoeHybrid", "Bailing", "Inkling"};

constexpr std::string_view kTwoPools[] = {"Llama4ForConditionalGeneration",
                                          "GptOssForCausalLM",
                                          "MiMoV2FlashForCausalLM",
                                          "MiMoV2ForCausalLM",
                                          "Step3p5ForCausalLM",
                                          "Step3p7ForConditionalGeneration",
                                          "Gemma4ForConditionalGeneration",
                                          "Gemma4ForCausalLM",
                                          "LagunaForCausalLM",
                                          "MellumForCausalLM",
                                          "MuseGlimmerForConditionalGeneration",
                                          "MuseSparkForConditionalGeneration",
                                          "InklingForConditionalGeneration",
                                          "BeamForCausalLM",
                                          "UnlimitedOCRForCausalLM"};

/// Multimodal by their config, and served as text unless --enable-multimodal is given.
constexpr std::string_view kTextByDefault[] = {
    "Gemma3ForConditionalGeneration", "Llama4ForConditionalGeneration",
    "Step3VLForConditionalGeneration", "InklingForConditionalGeneration"};

/// Multimodal models whose config has no part that says so.
constexpr std::string_view kMultimodal[] = {"DeepseekOCRForCausalLM",
                                            "DeepseekOCR2ForCausalLM",
                                            "InternVLChatModel",
                                            "MiniCPMV",
                                            "MiniCPMO",
                                            "Phi4MMForCausalLM",
                                            "MultiModalityCausalLM"};

/// Multimodal models that keep their prefill graphs.
constexpr std::string_view kGraphsWithImages[] = {"Qwen3_5",       "KimiK25",  "Muse",
                                                  "Cohere2Vision", "Glm5Next", "InternS2Mobius",
                                                  "PaddleOCRVL",   "MiniMaxM3"};

/// Classes whose get_attention_sliding_window_size is one less than the config's window.
constexpr std::string_view kWindowLessOne[] = {"Gemma2",  "Gemma3", "Gemma4", "GptOss",
                                               "Exaone4", "Olmo2",  "Olmo3",  "MuseGlimmer"};
/// Classes that state the config's window as it is.
constexpr std::string_view kWindowAsStated[] = {"MiMoV2", "Laguna", "Step3p", "DeepseekV4",
                                                "Mellum"};

/// Architectures of transformers without a class in SGLang.
constexpr std::string_view kWithoutClass[] = {"BloomForCausalLM",     "FalconForCausalLM",
                                              "RWForCausalLM",        "GPTNeoXForCausalLM",
                                              "MPTForCausalLM",       "CodeGenForCausalLM",
                                              "PersimmonForCausalLM", "MambaForCausalLM",
                                              "Mamba2ForCausalLM",    "FalconMambaForCausalLM",
                                              "JambaForCausalLM",     "RecurrentGemmaForCausalLM",
                                              "MossForCausalLM",      "AquilaModel",
                                              "AquilaForCausalLM",    "JAISLMHeadModel",
                                              "RwkvForCausalLM",      "Zamba2ForCausalLM",
                                              "MiniMaxM1ForCausalLM", "MiniMaxText01ForCausalLM",
                                              "Qwen4ExpForCausalLM",  "Glm5NextForCausalLM"};

bool is_deepseek_v4(std::string_view architecture) {
  return architecture.starts_with("DeepseekV4");
}

std::optional<int64_t> window_of(const ModelConfig& config) {
  const std::string& name = config.architecture();
  const ConfigView text = config.text();
  const Bounds bounds{0, int64_t{1} << 40};
  if (name == "Llama4ForConditionalGeneration") {
    const int64_t chunk = text.integer({"attention_chunk_size"}, 0, bounds);
    return chunk > 0 ? std::optional(chunk) : std::nullopt;
  }
  const int64_t window = text.integer({"sliding_window", "sliding_window_size"}, 0, bounds);
  if (window <= 0) return std::nullopt;
  if (begins(kWindowLessOne, name)) return window - 1;
  if (begins(kWindowAsStated, name)) return window;
  return std::nullopt;
}

}  // namespace

bool is_qwen35(std::string_view architecture) {
  return architecture.starts_with("Qwen3_5");
}

bool has_class(std::string_view architecture) {
  return !is_in(kWithoutClass, architecture);
}

bool takes_extra_buffer(std::string_view architecture) {
  return begins(kExtraBuffer, architecture);
}

bool without_prefill_graphs(const ModelFacts& facts) {
  if (facts.deepseek_v4) return true;
  if (facts.architecture.starts_with("KimiLinear") || facts.architecture.starts_with("KimiK3"))
    return true;
  return facts.multimodal && !begins(kGraphsWithImages, facts.architecture);
}

ModelFacts facts_of(const ModelConfig& config, bool multimodal) {
  ModelFacts facts;
  facts.architecture = config.architecture();
  // The class that SGLang's registry gives DeepSeek-OCR 2.
  if (facts.architecture == "DeepseekOCR2ForCausalLM")
    facts.architecture = "DeepseekOCRForCausalLM";
  const std::string& name = facts.architecture;
  const ConfigView text = config.text();
  facts.deepseek_v4 = is_deepseek_v4(name);
  facts.latent = begins(kLatentModels, name) && text.integer({"kv_lora_rank"}, 0, kSizeOrNone) > 0;

  facts.sparse = is_in(kSparse, name) ||
                 (facts.latent && text.has("index_topk") && text.has("index_head_dim"));
  facts.hybrid = begins(kHybrid, name);
  facts.window = window_of(config);
  facts.two_pools = is_in(kTwoPools, name) || text.flag({"is_hybrid_swa"}, false);
  if (name == "LagunaForCausalLM" && !facts.window) facts.two_pools = false;
  const bool has_images = is_in(kMultimodal, name) ||
                          config.has_part({"text_config", "llm_config", "language_config",
                                           "thinker_config", "vision_config", "audio_config"});
  facts.multimodal = has_images && (multimodal || !is_in(kTextByDefault, name));
  facts.sinks = name.starts_with("GptOss") || name.starts_with("MiMoV2");
  return facts;
}

Windows windows_of(const ModelConfig& config, const ModelFacts& facts) {
  const int64_t layers = config.layers();
  const ConfigView text = config.text();
  int64_t windowed = 0;
  if (facts.architecture == "Llama4ForConditionalGeneration") {
    constexpr int64_t kEveryFull = 4;
    windowed = layers - layers / kEveryFull;
  } else if (text.has("hybrid_layer_pattern")) {
    const std::vector<int64_t> pattern = text.integers({"hybrid_layer_pattern"});
    windowed = std::ranges::count(pattern, int64_t{1});
  } else {
    windowed = count_of(config.layer_types(), "sliding_attention");
  }
  windowed = std::min(windowed, layers);
  return {windowed, layers - windowed};
}

int64_t derived_context(const ModelConfig& config) {
  const ConfigView text = config.text();
  const Bounds bounds{1, int64_t{1} << 40};
  const int64_t stated =
      text.integer({"max_sequence_length", "seq_length", "max_seq_len", "model_max_length",
                    "max_position_embeddings", "n_positions"},
                   2048, bounds);
  // Gemma 3 has a rope for each kind of layer, whose factors lengthen nothing.
  if (config.architecture().starts_with("Gemma3")) return stated;
  const Keys ropes = {"rope_parameters", "rope_scaling"};
  if (!text.has_child(ropes)) return stated;
  const ConfigView rope = text.child(ropes);
  if (rope.has("original_max_position_embeddings")) return stated;
  if (rope.text({"rope_type", "type"}, "") == "llama3") return stated;
  const double factor = rope.number({"factor"}, 1);
  constexpr double kMost = 1e12;
  const double length = factor * static_cast<double>(stated);
  return length >= 1 && length < kMost ? static_cast<int64_t>(length) : stated;
}

}  // namespace plimsoll::engines::sglang
