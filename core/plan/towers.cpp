// Vision towers and their projectors, as rows of one table: what vLLM builds beside the language
// model.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/towers.h"

namespace plimsoll::plan {
int64_t norm_elements(const Tower& tower) {
  return tower.hidden * (tower.layer_norm ? 2 : 1);
}

namespace {

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
  weights.linear(Part::vision, {{path + ".attn", "qkv", {"q_proj", "k_proj", "v_proj"}},
                                tower.hidden,
                                {inner, inner, inner},
                                columns,
                                tower.qkv_bias,
                                tower.quantized});
  weights.linear(
      Part::vision,
      {{path + ".attn", "proj", {}}, inner, {tower.hidden}, rows, tower.out_bias, tower.quantized});
  const Split up = tower.split_mlp ? Split::outputs : Split::none;
  const Split down = tower.split_mlp ? Split::inputs : Split::none;
  std::vector<int64_t> widths(tower.gated ? 2 : 1, tower.intermediate);
  weights.linear(
      Part::vision,
      {{path + ".mlp", "fc1", {}}, tower.hidden, widths, up, tower.mlp_bias, tower.quantized});
  weights.linear(Part::vision, {{path + ".mlp", "fc2", {}},
                                tower.intermediate,
                                {tower.hidden},
                                down,
                                tower.mlp_bias,
                                tower.quantized});
  weights.plain(Part::vision, Amount{tower.norms} * norm_elements(tower) + tower.layer_extras);
}

}  // namespace

void add_tower(Tower tower, Builder& build) {
  RankWeights& weights = build.weights;
  if (tower.whole_if_uneven && tower.heads % weights.ranks() != 0) {
    tower.split_attention = tower.split_mlp = false;
  }
  weights.plain(Part::vision, Amount{tower.patch_inputs} * tower.hidden +
                                  (tower.patch_bias ? tower.hidden : 0) +
                                  Amount{tower.positions} * tower.hidden + tower.ends);
  for (int64_t layer = 0; layer < tower.layers; ++layer) add_tower_layer(tower, layer, weights);
  VisionShape& vision = build.shape.vision;
  vision.hidden = tower.hidden;
  vision.layers = tower.layers;
  vision.intermediate = tower.intermediate;
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

struct TowerRow {
  const char* architecture;
  AddTower* add;
};

constexpr auto kTowers = std::to_array<TowerRow>({
    {"Qwen2VLForConditionalGeneration", add_qwen2_vision},
    {"Qwen2_5_VLForConditionalGeneration", add_qwen2_5_vision},
    {"Qwen3VLForConditionalGeneration", add_qwen3_vision},
    {"Qwen3VLMoeForConditionalGeneration", add_qwen3_vision},
    {"Qwen3_5ForConditionalGeneration", add_qwen3_vision},
    {"Qwen3_5MoeForConditionalGeneration", add_qwen3_vision},
    {"Gemma3ForConditionalGeneration", add_gemma3_vision},
    {"Gemma3nForConditionalGeneration", add_gemma3n_towers},
    {"Gemma4ForConditionalGeneration", add_gemma4_vision},
    {"Mistral3ForConditionalGeneration", add_pixtral_vision},
    {"InternVLChatModel", add_intern_vision},
    {"Idefics3ForConditionalGeneration", add_idefics3_vision},
    {"SmolVLMForConditionalGeneration", add_idefics3_vision},
    {"LlavaForConditionalGeneration", add_llava_vision},
    {"LlavaNextForConditionalGeneration", add_llava_vision},
    {"KimiK25ForConditionalGeneration", add_moon_vision},
    {"KimiK3ForConditionalGeneration", add_moon_vision},
    {"Llama4ForConditionalGeneration", add_llama4_vision},
    {"MuseGlimmerForConditionalGeneration", add_muse_vision},
    {"KimiVLForConditionalGeneration", add_moon_vision},
    {"LlavaOnevisionForConditionalGeneration", add_llava_onevision},
    {"PaliGemmaForConditionalGeneration", add_paligemma_vision},
    {"Cohere2VisionForConditionalGeneration", add_cohere_vision},
    {"InternVLForConditionalGeneration", add_intern_hf_vision},
    {"InternS1ForConditionalGeneration", add_intern_hf_vision},
    {"Glm4vForConditionalGeneration", add_glm_vision},
    {"Glm4vMoeForConditionalGeneration", add_glm_vision},
    {"Qwen2AudioForConditionalGeneration", add_qwen_audio},
    {"Qwen2_5OmniForConditionalGeneration", add_qwen_omni},
    {"Qwen2_5OmniModel", add_qwen_omni},
});

}  // namespace

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
  // Mistral's wrapper serves language models without a tower too.
  if (architecture == "Mistral3ForConditionalGeneration" && !config.has_child({"vision_config"}))
    return false;
  row->add(config, config.child({"vision_config"}), build);
  return true;
}

}  // namespace plimsoll::plan
