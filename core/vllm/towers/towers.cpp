// Vision towers and their projectors, as rows of one table: what vLLM builds beside the language
// model.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "vllm/towers/described_tower.h"
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

constexpr model::VllmVersion kWholePositions{0, 14, 0};  // before: SigLIP's in shares

void add_encoder(const Tower& tower, Builder& build) {
  constexpr std::string_view kLayers = ".encoder.layers";
  model::VisionSizes sizes = tower.sizes;
  sizes.layers = tower.layers;
  std::vector<model::WeightSpec> table;
  model::SpecBuilder add(table);
  model::VisionSpec described;
  model::add_image_encoder(tower.path.substr(0, tower.path.size() - kLayers.size()), *tower.encoder,
                           sizes, tower.ends > 0 ? model::PostNorm::kept : model::PostNorm::dropped,
                           add, described);
  model::WeightSpec& positions = add.at(described.positions);
  positions.shape[0] = tower.positions;
  const bool whole = build.options.version >= kWholePositions;
  if (*tower.encoder == model::ImageEncoder::siglip && !whole) {
    positions.split = model::Split::vocabulary;
  }
  add_described_tower(table, {sizes.hidden, sizes.intermediate, false}, build);
}

}  // namespace

void add_tower(Tower tower, Builder& build) {
  if (tower.encoder) return add_encoder(tower, build);
  RankWeights& weights = build.weights;
  if (tower.heads % weights.ranks() != 0) {
    if (tower.whole_if_uneven) tower.split_attention = tower.split_mlp = false;
    if (tower.whole_attention_if_uneven) tower.split_attention = false;
  }
  weights.plain(Part::vision, Amount{tower.patch_inputs} * tower.hidden +
                                  (tower.patch_bias ? tower.hidden : 0) +
                                  Amount{tower.positions} * tower.hidden + tower.ends);
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

/// What counts each tower with its projector.
struct TowerRow {
  model::Tower tower;
  AddTower* add;
};
using T = model::Tower;
// clang-format off
constexpr auto kTowers = std::to_array<TowerRow>({
    {T::aria, add_aria_vision}, {T::audio_flamingo, add_audio_flamingo},
    {T::bagel, add_bagel_vision}, {T::bee, add_bee_vision}, {T::blip2, add_blip2_vision},
    {T::cohere, add_cohere_vision}, {T::deepseek_ocr, add_deepseek_ocr},
    {T::deepseek_ocr2, add_deepseek_ocr2}, {T::deepseek_vl2, add_deepseek_vl2},
    {T::dots, add_dots_vision}, {T::eagle, add_eagle_vision}, {T::ernie, add_ernie_vision},
    {T::gemma3, add_gemma3_vision}, {T::gemma3n, add_gemma3n_towers},
    {T::gemma4, add_gemma4_vision}, {T::gemma4_unified, add_gemma4_unified},
    {T::glm, add_glm_vision}, {T::glm4v, add_glm4v_vision}, {T::glm_asr, add_glm_asr},
    {T::glm_next, add_glm_next_vision}, {T::glm_ocr, add_glm_ocr_vision},
    {T::granite_speech, add_granite_speech}, {T::h2o, add_h2o_vision},
    {T::hyperclova, add_hyperclova_vision},
    {T::idefics3, add_idefics3_vision}, {T::intern, add_intern_vision},
    {T::intern_hf, add_intern_hf_vision}, {T::isaac, add_isaac_vision}, {T::keye, add_keye_vision},
    {T::keye15, add_keye15_vision}, {T::kimi, add_kimi_vision}, {T::lfm2, add_lfm2_vision},
    {T::llama3v, add_llama3v}, {T::llama4, add_llama4_vision}, {T::llava, add_llava_vision},
    {T::llava_next, add_llava_next_vision}, {T::llava_onevision, add_llava_onevision},
    {T::llava_video, add_llava_video_vision}, {T::locate_anything, add_locate_anything},
    {T::logics, add_logics}, {T::minicpm, add_minicpm_vision}, {T::minicpm46, add_minicpm46_vision},
    {T::minicpm_omni, add_minicpm_omni}, {T::minimax, add_minimax_vision},
    {T::mistral, add_mistral_vision}, {T::molmo, add_molmo_vision}, {T::molmo2, add_molmo2_vision},
    {T::moon, add_moon_vision}, {T::muse, add_muse_vision}, {T::nemotron, add_nemotron_vision},
    {T::nemotron_hybrid, add_nemotron_hybrid_vision}, {T::nvlm, add_nvlm_vision},
    {T::ovis, add_ovis_vision}, {T::ovis25, add_ovis25_vision}, {T::paddle, add_paddle_vision},
    {T::paligemma, add_paligemma_vision}, {T::perception, add_perception_vision},
    {T::phi3, add_phi3_vision}, {T::phi4_senses, add_phi4_senses}, {T::pixtral, add_pixtral_vision},
    {T::qwen2, add_qwen2_vision}, {T::qwen2_5, add_qwen2_5_vision}, {T::qwen3, add_qwen3_vision},
    {T::qwen3_5, add_qwen3_5_vision}, {T::qwen3_asr, add_qwen3_asr},
    {T::qwen3_omni, add_qwen3_omni}, {T::qwen_audio, add_qwen_audio}, {T::qwen_omni, add_qwen_omni},
    {T::rvl, add_rvl_vision}, {T::skywork, add_skywork_vision}, {T::step3, add_step3_vision},
    {T::ultravox, add_ultravox}, {T::voxtral, add_voxtral}, {T::whisper, add_whisper_encoder},
    {T::xgen, add_xgen},
});
// clang-format on

/// The wrapper with the config's tower; nullptr: none is known.
const model::Wrapper* find_tower(const ConfigView& config, const std::string& architecture) {
  const auto has_tower = [](const model::Family& row) {
    return row.wrapper.tower != model::Tower::none;
  };
  const model::Family* const named = model::find_architecture(architecture);
  if (named != nullptr && has_tower(*named)) return &named->wrapper;
  const std::string type = config.text({"model_type"}, "");
  const auto row = std::ranges::find_if(model::families(), [&](const model::Family& family) {
    return family.architecture.empty() && family.model_type == type && has_tower(family);
  });
  return row == model::families().end() ? nullptr : &row->wrapper;
}

}  // namespace

bool wanted(const Builder& build, Modalities modalities) {
  const std::vector<std::string>& absent = build.options.absent;
  return std::any_of(modalities.begin(), modalities.end(), [&](const char* modality) {
    return modality != nullptr && std::find(absent.begin(), absent.end(), modality) == absent.end();
  });
}

bool is_known_tower(const std::string& architecture) {
  const model::Family* const row = model::find_architecture(architecture);
  return row != nullptr && row->wrapper.tower != model::Tower::none;
}

bool add_towers(const ConfigView& config, const std::string& architecture, Builder& build) {
  const model::Wrapper* const wrapper = find_tower(config, architecture);
  if (wrapper == nullptr) return false;
  if (wrapper->optional_tower && !config.has_child({"vision_config"})) return false;
  const bool read = wanted(build, wrapper->modalities);
  if (!read && !wrapper->always_tower) return false;
  std::ranges::find(kTowers, wrapper->tower, &TowerRow::tower)
      ->add(config, config.child({"vision_config"}), build);
  return read;
}

}  // namespace plimsoll::vllm
