// Towers of the kinds in clip_towers.cpp behind other projectors, and Whisper's encoder.
#include <algorithm>
#include <cmath>

#include "plan/towers.h"

namespace plimsoll::plan {
namespace {

/// Two plain projections, whole on every rank.
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

}  // namespace

void add_llava_onevision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  tower.ends = 0;  // features are taken before the last norm
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  build.weights.plain(Part::vision, build.dims.hidden);  // image_newline
  project_twice(build, tower.hidden, build.dims.hidden,
                outer.flag({"multimodal_projector_bias"}, true));
  build.shape.vision.kind = VisionShape::Kind::other;
}

void add_paligemma_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  const Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const int64_t outputs = config.integer({"projection_dim"}, build.dims.hidden, {1, 1 << 24});
  build.weights.plain(Part::vision, Amount{tower.hidden + 1} * outputs);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 224, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = tower.positions;
  build.shape.prefix_images = true;
}

void add_cohere_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const int64_t merge = outer.integer({"downsample_factor"}, 2, {1, 1 << 10});
  const int64_t between =
      outer.integer({"alignment_intermediate_size"}, 36864, {2, int64_t{1} << 31}) / 2;
  build.weights.linear(Part::vision, {{"multi_modal_projector", "linear_1", {}},
                                      tower.hidden * merge * merge,
                                      {between, between},
                                      Split::outputs,
                                      true});
  project(build, "multi_modal_projector.linear_2", between, build.dims.hidden, Split::inputs, true);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = config.integer({"image_size"}, 512, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  vision.tokens_per_image = tower.positions / (merge * merge);
  vision.max_tiles = 12;
}

/// InternVL in transformers' own layout: its attention is not divided over ranks.
void add_intern_hf_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const int64_t patch = first_of(config, "patch_size", 14);
  const int64_t image = first_of(config, "image_size", 448);
  const int64_t side = image / patch;
  Tower tower;
  tower.path = "vision_tower.encoder.layer";
  tower.layers = config.integer({"num_hidden_layers"}, 24, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 1024, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 4096);
  tower.layer_norm = config.text({"norm_type"}, "layer_norm") == "layer_norm";
  tower.qkv_bias = config.flag({"attention_bias"}, false);
  tower.split_attention = false;
  tower.layer_extras = 2 * tower.hidden;
  if (config.flag({"use_qk_norm"}, false)) tower.layer_extras += 2 * tower.hidden;
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  const bool absolute = config.flag({"use_absolute_position_embeddings"}, true);
  tower.positions = absolute ? side * side + 1 : 0;
  tower.ends = tower.hidden + (config.flag({"use_mask_token"}, false) ? tower.hidden : 0);
  if (!config.flag({"use_mean_pooling"}, true)) tower.ends += 2 * tower.hidden;
  add_tower(tower, build);
  const double ratio = outer.number({"downsample_ratio"}, 0.5);
  const auto merge = std::max<int64_t>(1, std::llround(1.0 / std::max(ratio, 0.01)));
  const int64_t merged = tower.hidden * merge * merge;
  build.weights.plain(Part::vision, 2 * merged);
  project_twice(build, merged, build.dims.hidden, true);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = image;
  vision.patch = patch;
  vision.tokens_per_image = side * side / (merge * merge);
  vision.max_tiles = 12;
  vision.video = true;
}

/// GLM-4.1V and GLM-4.5V.
void add_glm_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  Tower tower;
  tower.path = "visual.blocks";
  tower.layers = config.integer({"depth"}, 24, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 1536, {1, 1 << 20});
  tower.heads = config.integer({"num_heads"}, 12, {1, 1 << 16});
  const int64_t out = config.integer({"out_hidden_size"}, 4096, {1, 1 << 20});
  const int64_t context = config.integer({"intermediate_size"}, 13696);
  tower.intermediate = out;
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = false;
  const int64_t side = config.integer({"image_size"}, 336, {1, 1 << 20}) / vision.patch;
  tower.patch_inputs = config.integer({"in_channels"}, 3, kChannels) * vision.temporal_patch *
                       vision.patch * vision.patch;
  tower.positions = side * side;
  tower.ends = 2 * tower.hidden;  // norms after the patches and at the end
  add_tower(tower, build);
  build.weights.plain(Part::vision, Amount{tower.hidden} * out * vision.merge * vision.merge + out);
  project(build, "visual.merger.proj", out, out, Split::outputs, false);
  build.weights.plain(Part::vision, 2 * out);
  build.weights.linear(
      Part::vision,
      {{"visual.merger", "gate_up_proj", {"gate_proj", "up_proj"}}, out, {context, context}});
  project(build, "visual.merger.down_proj", context, out, Split::inputs, false);
  constexpr int64_t kRotaryPositions = 8192;
  build.weights.buffer(Amount{kRotaryPositions} * (tower.hidden / tower.heads / 2) *
                       build.options.element);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  vision.kind = VisionShape::Kind::other;
}

namespace {

/// Whisper's encoder in transformers' own modules, whole on every rank.
Tower whisper_tower(const ConfigView& config) {
  Tower tower;
  tower.path = "audio_tower.layers";
  tower.layers = config.integer({"encoder_layers"}, 32, kTowerLayers);
  tower.hidden = config.integer({"d_model"}, 1280, {1, 1 << 20});
  tower.heads = config.integer({"encoder_attention_heads"}, 20, {1, 1 << 16});
  tower.intermediate = config.integer({"encoder_ffn_dim"}, 5120);
  tower.split_attention = tower.split_mlp = false;
  tower.quantized = false;
  tower.layer_extras = -tower.hidden;  // keys have no bias
  constexpr int64_t kTaps = 3;
  tower.patch_inputs = config.integer({"num_mel_bins"}, 128, {1, 1 << 16}) * kTaps;
  // The second convolution, and the last norm.
  tower.ends = kTaps * tower.hidden * tower.hidden + tower.hidden + 2 * tower.hidden;
  return tower;
}

int64_t sound_positions(const ConfigView& config) {
  return config.integer({"max_source_positions"}, 1500, {1, 1 << 24});
}

}  // namespace

void add_qwen_audio(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"audio_config"});
  Tower tower = whisper_tower(config);
  tower.positions = sound_positions(config);
  add_tower(tower, build);
  build.weights.plain(Part::vision, Amount{tower.hidden + 1} * build.dims.hidden);
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// Qwen2.5-Omni's thinker: eyes of Qwen2.5-VL, ears of Whisper.
void add_qwen_omni(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView thinker =
      outer.has_child({"thinker_config"}) ? outer.child({"thinker_config"}) : outer;
  const ConfigView config = thinker.child({"audio_config"});
  const Tower tower = whisper_tower(config);
  add_tower(tower, build);
  constexpr int64_t kFloat32 = 4;
  build.weights.buffer(Amount{sound_positions(config)} * tower.hidden * kFloat32);
  const int64_t outputs = config.integer({"output_dim"}, build.dims.hidden, {1, 1 << 24});
  constexpr int64_t kBeginAndEnd = 2;
  build.weights.plain(Part::vision, Amount{tower.hidden + 1 + kBeginAndEnd} * outputs);
  add_qwen2_5_vision(thinker, thinker.child({"vision_config"}), build);
}

}  // namespace plimsoll::plan
