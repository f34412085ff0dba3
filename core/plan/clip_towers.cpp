// Towers of the CLIP, SigLIP, Pixtral and InternViT kinds.
#include <algorithm>
#include <cmath>

#include "plan/towers.h"

namespace plimsoll::plan {

/// SigLIP and CLIP towers.
Tower siglip_tower(const ConfigView& config, const char* path) {
  Tower tower;
  tower.path = path;
  tower.layers = config.integer({"num_hidden_layers"}, 12, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 768, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 12, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 3072);
  const int64_t patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  const int64_t side = config.integer({"image_size"}, 224, {1, 1 << 20}) / patch;
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.positions = side * side;
  tower.ends = norm_elements(tower);
  return tower;
}

void add_gemma3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  build.weights.plain(Part::vision, Amount{tower.hidden} * build.dims.hidden + tower.hidden);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 896, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = outer.integer({"mm_tokens_per_image"}, 256);
  build.shape.prefix_images = true;
}

void add_idefics3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "model.vision_model.encoder.layers");
  add_tower(tower, build);
  const int64_t scale = outer.integer({"scale_factor"}, 2, {1, 1 << 10});
  project(build, "model.connector.proj", tower.hidden * scale * scale, build.dims.hidden,
          Split::none, false);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 512, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  vision.tokens_per_image = tower.positions / (scale * scale);
}

/// LLaVA: a CLIP or SigLIP tower and two projections.
void add_llava_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const bool clip = config.text({"model_type"}, "").find("clip_vision") == 0;
  Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  const int64_t feature = outer.integers({"vision_feature_layer"}).empty()
                              ? -1
                              : outer.integers({"vision_feature_layer"}).front();
  if (feature < -1) tower.layers = std::max<int64_t>(0, tower.layers + feature + 1);
  if (clip) {
    tower.patch_bias = false;
    tower.positions += 1;
    tower.ends = tower.hidden + norm_elements(tower);  // class token, first norm
  } else {
    tower.ends = 0;  // features are taken before the last norm
  }
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  if (build.shape.architecture.starts_with("LlavaNext")) {
    build.weights.plain(Part::vision, build.dims.hidden);  // image_newline
  }
  const bool bias = outer.flag({"multimodal_projector_bias"}, true);
  project(build, "multi_modal_projector.linear_1", tower.hidden, build.dims.hidden, Split::outputs,
          bias);
  project(build, "multi_modal_projector.linear_2", build.dims.hidden, build.dims.hidden,
          Split::inputs, bias);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 336, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = clip ? tower.positions - 1 : tower.positions;
}

void add_pixtral_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_tower.transformer.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 24, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 1024, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 4096);
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = false;
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.patch_bias = false;
  tower.ends = tower.hidden;
  add_tower(tower, build);
  // Frequencies of the rotary embedding, kept twice in float32.
  build.weights.buffer(Amount{2} * (tower.hidden / tower.heads / 2) * 4);
  const int64_t merge = outer.integer({"spatial_merge_size"}, 2, {1, 1 << 10});
  const bool bias = outer.flag({"multimodal_projector_bias"}, false);
  build.weights.plain(Part::vision, tower.hidden);
  project(build, "multi_modal_projector.patch_merger", tower.hidden * merge * merge, tower.hidden,
          Split::none, false);
  project(build, "multi_modal_projector.linear_1", tower.hidden, build.dims.hidden, Split::outputs,
          bias);
  project(build, "multi_modal_projector.linear_2", build.dims.hidden, build.dims.hidden,
          Split::inputs, bias);
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, patch, merge);
  vision.merge = merge;
  const int64_t side = config.integer({"image_size"}, 1540, {1, 1 << 20});
  vision.default_min_pixels = 1;
  vision.default_max_pixels = side * side;
}

void add_intern_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_model.encoder.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 24, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 1024, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 4096);
  tower.layer_norm = config.text({"norm_type"}, "layer_norm") == "layer_norm";
  tower.qkv_bias = config.flag({"qkv_bias"}, true);
  tower.layer_extras = 2 * tower.hidden;
  if (config.flag({"qk_normalization"}, false)) tower.layer_extras += 2 * tower.hidden;
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t image = outer.integer(
      {"force_image_size"}, config.integer({"image_size"}, 448, {1, 1 << 20}), {1, 1 << 20});
  const int64_t side = config.integer({"image_size"}, image, {1, 1 << 20}) / patch;
  tower.patch_inputs = 3 * patch * patch;
  tower.positions = side * side + 1;
  tower.ends = tower.hidden;  // class token
  const int64_t feature =
      outer.integers({"select_layer"}).empty() ? -1 : outer.integers({"select_layer"}).front();
  if (feature < -1) tower.layers = std::max<int64_t>(0, tower.layers + feature + 1);
  add_tower(tower, build);
  const double ratio = outer.number({"downsample_ratio"}, 0.5);
  const auto merge = std::max<int64_t>(1, std::llround(1.0 / std::max(ratio, 0.01)));
  const int64_t merged = tower.hidden * merge * merge;
  build.weights.plain(Part::vision, 2 * merged);
  project(build, "mlp1.1", merged, build.dims.hidden, Split::none, true);
  project(build, "mlp1.3", build.dims.hidden, build.dims.hidden, Split::none, true);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = image;
  vision.patch = patch;
  vision.tokens_per_image = side * side / (merge * merge);
  vision.max_tiles = outer.integer({"max_dynamic_patch"}, 12, {1, 1 << 10});
  vision.video = true;
}

}  // namespace plimsoll::plan
