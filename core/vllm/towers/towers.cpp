// Vision towers and their projectors, as rows of one table: what vLLM builds beside the language
// model.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
int64_t norm_elements(const Tower& tower) {
  return tower.hidden * (tower.layer_norm ? 2 : 1);
}

namespace {

/// The MLP's first matrix, or the two of a gated one.
ModuleName up_module(const Tower& tower, const std::string& mlp) {
  if (!tower.modules.up.empty()) return {mlp, tower.modules.up, {}};
  if (!tower.gated) return {mlp, "fc1", {}};
  return {mlp, "gate_up_proj", {"gate_proj", "up_proj"}};
}

void add_tower_layer(const Tower& tower, int64_t layer, RankWeights& weights) {
  const std::string path = tower.path + "." + std::to_string(layer);
  const int64_t size = tower.head_size > 0 ? tower.head_size : tower.hidden / tower.heads;
  const int64_t inner = size * tower.heads;
  const Split columns = tower.split_attention ? Split::outputs : Split::none;
  const Split rows = tower.split_attention ? Split::inputs : Split::none;
  if (tower.split_attention) {
    static_cast<void>(
        weights.share(tower.heads, "the number of the vision tower's attention heads"));
  }
  const int64_t cached = size * (tower.kv_heads > 0 ? tower.kv_heads : tower.heads);
  const TowerModules& modules = tower.modules;
  const std::string attention = path + "." + modules.attention;
  weights.linear(Part::vision, {{attention, modules.qkv, {"q_proj", "k_proj", "v_proj"}},
                                tower.hidden,
                                {inner, cached, cached},
                                columns,
                                tower.qkv_bias,
                                tower.quantized});
  weights.linear(
      Part::vision,
      {{attention, modules.out, {}}, inner, {tower.hidden}, rows, tower.out_bias, tower.quantized});
  const std::string mlp = path + "." + modules.mlp;
  weights.linear(Part::vision,
                 {up_module(tower, mlp), tower.hidden,
                  std::vector<int64_t>(tower.gated ? 2 : 1, tower.intermediate),
                  tower.split_mlp ? Split::outputs : Split::none, tower.mlp_bias, tower.quantized});
  const char* down = tower.gated ? "down_proj" : "fc2";
  weights.linear(Part::vision, {{mlp, modules.down.empty() ? down : modules.down, {}},
                                tower.intermediate,
                                {tower.hidden},
                                tower.split_mlp ? Split::inputs : Split::none,
                                tower.mlp_bias,
                                tower.quantized});
  weights.plain(Part::vision, Amount{tower.norms} * norm_elements(tower) + tower.layer_extras);
}

}  // namespace

namespace {

constexpr model::VllmVersion kWholePositions{0, 14, 0};

/// Rows of the table of positions on this rank.
int64_t own_positions(const Tower& tower, const Builder& build) {
  if (!tower.cut_positions || build.options.version >= kWholePositions) return tower.positions;
  return padded_to(tower.positions, kVocabularyPadding).value() / build.weights.ranks();
}

}  // namespace

void add_tower(Tower tower, Builder& build) {
  RankWeights& weights = build.weights;
  if (tower.heads % weights.ranks() != 0) {
    if (tower.whole_if_uneven) tower.split_attention = tower.split_mlp = false;
    if (tower.whole_attention_if_uneven) tower.split_attention = false;
  }
  weights.plain(Part::vision, Amount{tower.patch_inputs} * tower.hidden +
                                  (tower.patch_bias ? tower.hidden : 0) +
                                  Amount{own_positions(tower, build)} * tower.hidden + tower.ends);
  for (int64_t layer = 0; layer < tower.layers; ++layer) add_tower_layer(tower, layer, weights);
  const int64_t ranks = tower.split_mlp ? weights.ranks() : 1;
  build.shape.vision.tower = {tower.hidden, tower.intermediate / ranks, tower.gated};
}

Tower read_tower(const ConfigView& config, const char* path, const TowerSizes& usual) {
  Tower tower;
  tower.path = path;
  tower.layers = config.integer({"vt_num_hidden_layers", "num_hidden_layers", "depth"},
                                usual.layers, kTowerLayers);
  tower.hidden = config.integer({"vt_hidden_size", "hidden_size"}, usual.hidden, {1, 1 << 20});
  tower.heads = config.integer({"vt_num_attention_heads", "num_attention_heads", "num_heads"},
                               usual.heads, {1, 1 << 16});
  tower.intermediate = config.integer({"vt_intermediate_size", "intermediate_size"},
                                      usual.intermediate, {1, 1 << 24});
  return tower;
}

void add_visual_words(Builder& build, int64_t hidden, int64_t stride, int64_t words,
                      int64_t marks) {
  build.weights.plain(Part::vision, Amount{hidden} * stride * stride * (words - marks) +
                                        layer_norm(words - marks) +
                                        Amount{words} * build.dims.hidden);
}

void project_twice(Builder& build, int64_t inputs, int64_t between, bool bias) {
  const int64_t outputs = build.dims.hidden;
  const Amount biases = bias ? Amount{between} + outputs : Amount{0};
  build.weights.plain(Part::vision, Amount{inputs} * between + Amount{between} * outputs + biases);
}

int64_t first_of(const ConfigView& config, const char* key, int64_t fallback) {
  const std::vector<int64_t> values = config.integers({key});
  const int64_t value = values.empty() ? fallback : values.front();
  return std::clamp<int64_t>(value, 1, 1 << 20);
}

/// One projection of a projector, named as its module is.
void project(Builder& build, const char* name, int64_t inputs, int64_t outputs, Split split,
             bool bias) {
  build.weights.linear(Part::vision, {{"", name, {}}, inputs, {outputs}, split, bias});
}

void square_patches(VisionShape& vision, const ConfigView& config, int64_t patch, int64_t merge) {
  vision.kind = VisionShape::Kind::patches;
  vision.patch = config.integer({"patch_size"}, patch, {1, 1 << 16});
  vision.merge = config.integer({"spatial_merge_size"}, merge, {1, 1 << 10});
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 1, {1, 1 << 10});
}

namespace {

/// Modalities that share a tower: it is left out where none of them is wanted.
constexpr Modalities kSight = {"image", "video"};
constexpr Modalities kImages = {"image"};
constexpr Modalities kVideos = {"video"};
constexpr Modalities kChunks = {"vision_chunk"};
constexpr Modalities kSound = {"audio"};
constexpr Modalities kSenses = {"image", "video", "audio"};

struct TowerRow {
  const char* architecture;
  AddTower* add;
  Modalities modalities = kSight;
  bool optional = false;  // serves language models without a tower too
  bool always = false;    // its weights are there whatever modalities are wanted
};

constexpr auto kTowers = std::to_array<TowerRow>({
    {"Qwen2VLForConditionalGeneration", add_qwen2_vision},
    {"Qwen2_5_VLForConditionalGeneration", add_qwen2_5_vision},
    {"Qwen3VLForConditionalGeneration", add_qwen3_vision},
    {"Qwen3VLMoeForConditionalGeneration", add_qwen3_vision},
    {"Qwen3_5ForConditionalGeneration", add_qwen3_5_vision},
    {"Qwen3_5MoeForConditionalGeneration", add_qwen3_5_vision},
    {"Gemma3ForConditionalGeneration", add_gemma3_vision, kImages},
    {"Gemma3nForConditionalGeneration", add_gemma3n_towers, kSenses},
    {"Gemma4ForConditionalGeneration", add_gemma4_vision},
    {.architecture = "Gemma4UnifiedForConditionalGeneration",
     .add = add_gemma4_unified,
     .modalities = kSenses,
     .always = true},
    {"Mistral3ForConditionalGeneration", add_pixtral_vision, kImages, true},
    {"PixtralForConditionalGeneration", add_mistral_vision, kImages},
    {"InternVLChatModel", add_intern_vision},
    {"Idefics3ForConditionalGeneration", add_idefics3_vision, kImages},
    {"SmolVLMForConditionalGeneration", add_idefics3_vision, kImages},
    {"LlavaForConditionalGeneration", add_llava_vision, kImages},
    {"LlavaNextForConditionalGeneration", add_llava_next_vision, kImages},
    {"LlavaNextVideoForConditionalGeneration", add_llava_video_vision, kVideos},
    {"KimiK25ForConditionalGeneration", add_moon_vision, kChunks},
    {"KimiK3ForConditionalGeneration", add_moon_vision, kChunks},
    {"Llama4ForConditionalGeneration", add_llama4_vision, kImages},
    {"MuseGlimmerForConditionalGeneration", add_muse_vision},
    {"KimiVLForConditionalGeneration", add_kimi_vision, kImages},
    {"LlavaOnevisionForConditionalGeneration", add_llava_onevision},
    {"PaliGemmaForConditionalGeneration", add_paligemma_vision, kImages},
    {"Cohere2VisionForConditionalGeneration", add_cohere_vision, kImages},
    {"InternVLForConditionalGeneration", add_intern_hf_vision},
    {"InternS1ForConditionalGeneration", add_intern_hf_vision},
    {"Glm4vForConditionalGeneration", add_glm_vision},
    {"Glm4vMoeForConditionalGeneration", add_glm_vision},
    {"Qwen2AudioForConditionalGeneration", add_qwen_audio, kSound},
    {"Qwen2_5OmniForConditionalGeneration", add_qwen_omni, kSenses},
    {"Qwen2_5OmniModel", add_qwen_omni, kSenses},
    {"Qwen3OmniMoeForConditionalGeneration", add_qwen3_omni, kSenses},
    {"Qwen3ASRForConditionalGeneration", add_qwen3_asr, kSound},
    {"AudioFlamingo3ForConditionalGeneration", add_audio_flamingo, kSound},
    {"GlmAsrForConditionalGeneration", add_glm_asr, kSound},
    {"UltravoxModel", add_ultravox, kSound},
    {"VoxtralForConditionalGeneration", add_voxtral, kSound},
    {"WhisperForConditionalGeneration", add_whisper_encoder, kSound},
    {"GraniteSpeechForConditionalGeneration", add_granite_speech, kSound},
    {"GraniteSpeechPlusForConditionalGeneration", add_granite_speech, kSound},
    {"LightOnOCRForConditionalGeneration", add_pixtral_vision, kImages},
    {"NVLM_D", add_nvlm_vision, kImages},
    {"H2OVLChatModel", add_h2o_vision, kSight},
    {"SkyworkR1VChatModel", add_skywork_vision, kImages},
    {"Eagle2_5_VLForConditionalGeneration", add_eagle_vision, kImages},
    {"PaddleOCRVLForConditionalGeneration", add_paddle_vision, kImages},
    {"KeyeForConditionalGeneration", add_keye_vision},
    {"KeyeVL1_5ForConditionalGeneration", add_keye15_vision},
    {"DotsOCRForCausalLM", add_dots_vision, kImages},
    {"GlmOcrForConditionalGeneration", add_glm_ocr_vision},
    {"Exaone4_5_ForConditionalGeneration", add_qwen2_5_vision},
    {"Blip2ForConditionalGeneration", add_blip2_vision, kImages},
    {"AriaForConditionalGeneration", add_aria_vision, kImages},
    {"MiniCPMV", add_minicpm_vision},
    {"MiniCPMO", add_minicpm_omni, kSenses},
    {"Molmo2ForConditionalGeneration", add_molmo2_vision},
    {"DeepseekVLV2ForCausalLM", add_deepseek_vl2, kImages},
    {"Ernie4_5_VLMoeForConditionalGeneration", add_ernie_vision},
    {"Llama_Nemotron_Nano_VL", add_nemotron_vision, kImages},
    {"NemotronH_Nano_VL_V2", add_nemotron_hybrid_vision, kSenses},
    {"NemotronH_Nano_Omni_Reasoning_V3", add_nemotron_hybrid_vision, kSenses},
    {"NemotronH_Super_Omni_Reasoning_V3", add_nemotron_hybrid_vision, kSenses},
    {"NemotronH_Omni_Reasoning_V3", add_nemotron_hybrid_vision, kSenses},
    {"MiniMaxM3SparseForConditionalGeneration", add_minimax_vision},
    {"MolmoForCausalLM", add_molmo_vision, kImages},
    {"MiniCPMV4_6ForConditionalGeneration", add_minicpm46_vision, kImages},
    {"MiniCPMV4_7ForConditionalGeneration", add_minicpm46_vision, kImages},
    {"Lfm2VlForConditionalGeneration", add_lfm2_vision, kImages},
    {"Phi3VForCausalLM", add_phi3_vision, kImages},
    {"Ovis", add_ovis_vision, kImages},
    {"GLM4VForCausalLM", add_glm4v_vision, kImages},
    {"DeepseekOCRForCausalLM", add_deepseek_ocr, kImages},
    {"DeepseekOCR2ForCausalLM", add_deepseek_ocr2, kImages},
    {"Ovis2_5", add_ovis25_vision},
    {"Ovis2_6ForCausalLM", add_ovis25_vision},
    {"Ovis2_6_MoeForCausalLM", add_ovis25_vision},
    {"Step3VLForConditionalGeneration", add_step3_vision, kImages},
    {"StepVLForConditionalGeneration", add_perception_vision, kImages},
    {"Step3p7ForConditionalGeneration", add_perception_vision, kImages},
    {"BeeForConditionalGeneration", add_bee_vision},
    {"RForConditionalGeneration", add_rvl_vision},
    {"IsaacForConditionalGeneration", add_isaac_vision, kImages},
    {"BagelForConditionalGeneration", add_bagel_vision, kImages},
    {"HCXVisionV2ForCausalLM", add_hyperclova_vision},
    {"Cosmos3ForConditionalGeneration", add_qwen3_vision},
    {"InternS2PreviewForConditionalGeneration", add_qwen3_5_vision},
    {"QianfanOCRForConditionalGeneration", add_intern_vision, kImages},
    {"UnlimitedOCRForCausalLM", add_deepseek_ocr, kImages},
    {"Qwen3ASRRealtimeGeneration", add_qwen3_asr, kSound},
    {"Phi4MMForCausalLM", add_phi4_senses, kSenses},
});

}  // namespace

bool wanted(const Builder& build, Modalities modalities) {
  const std::vector<std::string>& absent = build.options.absent;
  return std::any_of(modalities.begin(), modalities.end(), [&](const char* modality) {
    return modality != nullptr && std::find(absent.begin(), absent.end(), modality) == absent.end();
  });
}

bool is_known_tower(const std::string& architecture) {
  return is_rare_tower(architecture) ||
         std::any_of(kTowers.begin(), kTowers.end(),
                     [&](const TowerRow& tower) { return architecture == tower.architecture; });
}

bool add_towers(const ConfigView& config, const std::string& architecture, Builder& build) {
  const auto row = std::find_if(kTowers.begin(), kTowers.end(), [&](const TowerRow& tower) {
    return architecture == tower.architecture;
  });
  if (row == kTowers.end()) return add_rare_towers(config, architecture, build);
  if (row->optional && !config.has_child({"vision_config"})) return false;
  const bool read = wanted(build, row->modalities);
  if (read || row->always) row->add(config, config.child({"vision_config"}), build);
  return read;
}

}  // namespace plimsoll::vllm
