// Towers of the kinds in clip_towers.cpp behind other projectors, and GLM's.
#include <algorithm>
#include <cmath>

#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

/// Adds a SigLIP tower, behind it a norm where there is one, and two projections of `between`
/// numbers.
void add_onevision(const ConfigView& outer, const ConfigView& config, bool normed, int64_t between,
                   bool bias, Builder& build) {
  Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  tower.ends = 0;  // features are taken before the last norm
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  build.weights.plain(Part::vision, build.dims.hidden);  // image_newline
  if (normed) build.weights.plain(Part::vision, layer_norm(tower.hidden));
  project_twice(build, tower.hidden, between, bias);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::any_resolution;
  vision.nine_tiles = true;
  vision.image_size = config.integer({"image_size"}, 384, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = tower.positions;
  vision.pinpoints = read_pinpoints(outer, vision);
  pool_frames(vision, outer, 16);
  vision.video_tokens = 1;  // a newline
}

}  // namespace

void add_llava_onevision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_onevision(outer, config, false, build.dims.hidden,
                outer.flag({"multimodal_projector_bias"}, true), build);
}

void add_bee_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_onevision(outer, config, true, 4 * build.dims.hidden, true, build);
}

void add_rvl_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_onevision(outer, config, true, build.dims.hidden, true, build);
}

/// Isaac: SigLIP 2 over patches of any number, shuffled together before two projections.
void add_isaac_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "vision_embedding.0.encoder.layers");
  tower.positions = config.integer({"num_patches"}, 256, {1, 1 << 24});
  add_tower(tower, build);
  // The vision config's own factor counts, not `pixel_shuffle_scale` around it: its class always
  // has one.
  const int64_t scale = config.integer({"pixel_shuffle_scale_factor"}, 1, {1, 1 << 10});
  const int64_t shuffled = tower.hidden * scale * scale;
  project(build, "vision_embedding.1", shuffled, 4 * shuffled, Split::outputs, false);
  project(build, "vision_embedding.3", 4 * shuffled, build.dims.hidden, Split::inputs, false);
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// Bagel: what SigLIP sees gets positions once more.
void add_bagel_vision(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"vit_config"});
  const Tower tower = siglip_tower(config, "vit_model.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const int64_t hidden = build.dims.hidden;
  project(build, "connector.fc1", tower.hidden, hidden, Split::outputs, true);
  project(build, "connector.fc2", hidden, hidden, Split::inputs, true);
  const int64_t side = outer.integer({"vit_max_num_patch_per_side"}, 70, {1, 1 << 16});
  build.weights.buffer(Amount{side} * side * hidden * kFloat32);
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// HyperCLOVA X SEED Vision: Qwen2.5-VL's tower and a projection.
void add_hyperclova_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_qwen2_5_vision(outer, config, build);
  const int64_t seen = config.integer(
      {"out_hidden_size"}, config.integer({"hidden_size"}, 1280, {1, 1 << 20}), {1, 1 << 20});
  build.weights.plain(Part::vision, dense(seen, build.dims.hidden));
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
  vision.most_images = 1;
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

namespace {

/// GLM's merger: a convolution over squares of patches, and a gated feed-forward.
void add_glm_merger(Builder& build, int64_t hidden, int64_t out, int64_t context,
                    bool quantized = true) {
  const int64_t merge = build.shape.vision.merge;
  build.weights.plain(Part::vision, dense(hidden * merge * merge, out));
  const auto add = [&](const Linear& linear) { build.weights.linear(Part::vision, linear); };
  add({.name = {"visual.merger", "proj", {}},
       .inputs = out,
       .outputs = {out},
       .quantized = quantized});
  build.weights.plain(Part::vision, layer_norm(out));
  add({.name = {"visual.merger", "gate_up_proj", {"gate_proj", "up_proj"}},
       .inputs = out,
       .outputs = {context, context},
       .quantized = quantized});
  add({.name = {"visual.merger", "down_proj", {}},
       .inputs = context,
       .outputs = {out},
       .split = Split::inputs,
       .quantized = quantized});
}

void note_glm_pixels(VisionShape& vision) {
  vision.kind = VisionShape::Kind::pixel_volume;
  vision.video = VisionShape::Video::volume;
  vision.default_min_pixels = vision.video_min_pixels = 112 * 112;
  vision.default_max_pixels = int64_t{14 * 14 * 2 * 2 * 2} * 6144;
  vision.video_max_pixels = int64_t{28 * 28} * 60000;
  vision.most_frames = 600;
  vision.most_videos = 1;
  vision.bytes_on_device = true;
}

}  // namespace

/// GLM-4.1V and GLM-4.5V.
void add_glm_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  Tower tower = read_tower(config, "visual.blocks", {24, 1536, 12, 13696});
  const int64_t out = config.integer({"out_hidden_size"}, 4096, {1, 1 << 20});
  const int64_t context = tower.intermediate;
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
  add_glm_merger(build, tower.hidden, out, context);
  constexpr int64_t kRotaryPositions = 8192;
  build.weights.buffer(Amount{kRotaryPositions} * (tower.hidden / tower.heads / 2) *
                       build.options.element);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  note_glm_pixels(vision);
}

namespace {

/// How classes of GLM's towers without learned positions differ.
struct GlmTower {
  bool biased = true;
  bool quantized = true;
  int64_t context = 0;    // width of the merger's feed-forward
  int64_t positions = 0;  // rows of the rotary table
};

/// GLM-4.1V's tower with norms of queries and keys, and without learned positions.
void add_glm_without_positions(const ConfigView& config, const GlmTower& row, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  Tower tower = read_tower(config, "visual.blocks", {24, 1024, 16, 4096});
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = row.biased;
  tower.quantized = row.quantized;
  tower.layer_extras = 2 * (tower.hidden / tower.heads);
  tower.patch_inputs = config.integer({"in_channels"}, 3, kChannels) * vision.temporal_patch *
                       vision.patch * vision.patch;
  tower.ends = tower.hidden;  // a norm at the end
  add_tower(tower, build);
  const int64_t out = config.integer({"out_hidden_size"}, 1536, {1, 1 << 20});
  add_glm_merger(build, tower.hidden, out, row.context, row.quantized);
  build.weights.buffer(Amount{row.positions} * (tower.hidden / tower.heads / 2) *
                       build.options.element);
  note_glm_pixels(vision);
  vision.frame_marks = 4;  // "299.0 seconds"
}

}  // namespace

void add_glm_ocr_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  constexpr int64_t kRotaryPositions = 8192;
  add_glm_without_positions(config,
                            {.biased = config.flag({"attention_bias"}, true),
                             .context = build.dims.intermediate,
                             .positions = kRotaryPositions},
                            build);
}

/// GLM-5.3-Flash, whose processor bounds tokens.
void add_glm_next_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  constexpr int64_t kLeastTokens = 16, kMostTokens = 8000, kMostVideoTokens = 240000;
  const int64_t context = config.integer({"projection_intermediate_size"}, 10240, {1, 1 << 20});
  add_glm_without_positions(
      config, {.quantized = false, .context = context, .positions = build.dims.positions}, build);
  VisionShape& vision = build.shape.vision;
  const int64_t side = vision.patch * vision.merge;
  const int64_t token_pixels = vision.temporal_patch * side * side;
  vision.default_min_pixels = vision.video_min_pixels = kLeastTokens * token_pixels;
  vision.default_max_pixels = kMostTokens * token_pixels;
  vision.video_max_pixels = kMostVideoTokens * token_pixels;
}

/// GLM-4V: a CLIP-like tower whose tokens are merged by a convolution.
void add_glm4v_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "transformer.vision.transformer.layers", {63, 1792, 16, 15360});
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t image = config.integer({"image_size"}, 1120, {1, 1 << 20});
  tower.patch_inputs = config.integer({"in_channels"}, 3, kChannels) * patch * patch;
  tower.positions = config.integer({"num_positions"}, 6401, {1, 1 << 24});
  tower.ends = tower.hidden;  // class token
  add_tower(tower, build);
  const int64_t hidden = build.dims.hidden;
  const int64_t wide = outer.integer({"ffn_hidden_size"}, 13696, {1, 1 << 24});
  project(build, "transformer.vision.linear_proj.linear_proj", hidden, hidden, Split::none, false);
  build.weights.linear(Part::vision, {{"transformer.vision.linear_proj", "merged_proj", {}},
                                      hidden,
                                      {wide, wide},
                                      Split::outputs,
                                      false});
  project(build, "transformer.vision.linear_proj.dense_4h_to_h", wide, hidden, Split::inputs,
          false);
  constexpr int64_t kBeginAndEnd = 2;
  build.weights.plain(Part::vision, layer_norm(hidden) + dense(4 * tower.hidden, hidden) +
                                        Amount{kBeginAndEnd} * hidden);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = image;
  vision.patch = patch;
  const int64_t side = image / patch / 2;
  vision.tokens_per_image = side * side + kBeginAndEnd;
  vision.rows_per_tile = tower.positions;
}

/// Ovis 2: AIMv2's tower; what it sees becomes a mixture of learned visual words.
void add_ovis_vision(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView tokenizer = outer.child({"visual_tokenizer_config"});
  const ConfigView config = tokenizer.child({"backbone_config"});
  Tower tower = read_tower(config, "visual_tokenizer.backbone.trunk.blocks", {24, 1024, 8, 2816});
  tower.modules.up = "fc13";
  tower.modules.down = "fc2";
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t image = config.integer({"image_size"}, 224, {1, 1 << 20});
  const int64_t side = image / patch;
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = config.flag({"qkv_bias"}, false);
  tower.out_bias = tower.mlp_bias = config.flag({"use_bias"}, false);
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.positions = side * side;
  tower.ends = tower.hidden;  // a norm after the patches
  add_tower(tower, build);
  constexpr int64_t kMarks = 5;  // begin, end and separators of images
  const int64_t words = tokenizer.integer({"vocab_size"}, 16384, {kMarks + 1, 1 << 24});
  const int64_t stride = tokenizer.integer({"hidden_stride"}, 1, {1, 1 << 10});
  add_visual_words(build, tower.hidden, stride, words, kMarks);
  build.shape.vision.kind = VisionShape::Kind::other;
}

}  // namespace plimsoll::vllm
