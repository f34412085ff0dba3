// Towers of the CLIP, SigLIP, Pixtral and InternViT kinds.
#include <algorithm>
#include <cmath>

#include "base/rounding.h"
#include "model/towers/towers.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {

std::vector<std::pair<int64_t, int64_t>> read_pinpoints(const ConfigView& outer,
                                                        const VisionShape& vision) {
  std::vector<std::pair<int64_t, int64_t>> pinpoints;
  for (const std::vector<int64_t>& sides : outer.pairs({"image_grid_pinpoints"})) {
    const auto tiles = [&](int64_t side) {
      return std::clamp<int64_t>(side, vision.image_size, vision.image_size << 10);
    };
    pinpoints.emplace_back(tiles(sides[0]), tiles(sides[1]));
  }
  if (!pinpoints.empty()) return pinpoints;
  const int64_t one = vision.image_size;
  return {{one, 2 * one}, {2 * one, one}, {2 * one, 2 * one}, {3 * one, one}, {one, 3 * one}};
}

void pool_frames(VisionShape& vision, const ConfigView& outer, int64_t most) {
  const int64_t stride = outer.integer({"spatial_pool_stride"}, 2, {1, 1 << 10});
  const int64_t side = divide_up(vision.image_size / vision.patch, stride);
  vision.video = VisionShape::Video::pooled;
  vision.tokens_per_frame = side * side;
  vision.most_frames = most;
}

namespace {

Tower sized_tower(const char* path, const TowerSizes& sizes) {
  Tower tower;
  tower.path = path;
  tower.layers = sizes.layers;
  tower.hidden = sizes.hidden;
  tower.heads = sizes.heads;
  tower.intermediate = sizes.intermediate;
  return tower;
}

/// Names of modules in SigLIP and CLIP.
TowerModules clip_modules() {
  return {.attention = "self_attn", .qkv = "qkv_proj", .out = "out_proj"};
}

constexpr int64_t kClipPatch = 14;
constexpr int64_t kClipInputs = 3 * kClipPatch * kClipPatch;

}  // namespace

Tower clip_large(const char* path, int64_t layers, int64_t image) {
  Tower tower = sized_tower(path, {layers, 1024, 16, 4096});
  tower.modules = clip_modules();
  tower.patch_inputs = kClipInputs;
  tower.patch_bias = false;
  tower.positions = (image / kClipPatch) * (image / kClipPatch) + 1;
  tower.ends = tower.hidden + norm_elements(tower);  // class token, first norm
  return tower;
}

Tower siglip_tower(const ConfigView& config, const char* path, model::ImageEncoder kind) {
  Tower tower;
  tower.path = path;
  tower.encoder = kind;
  tower.sizes = model::read_image_encoder(model::ConfigReader::describing(config.json()), kind);
  tower.layers = tower.sizes.layers;
  tower.hidden = tower.sizes.hidden;
  tower.heads = tower.sizes.heads;
  tower.intermediate = tower.sizes.intermediate;
  tower.positions = tower.sizes.patches() + (kind == model::ImageEncoder::clip ? 1 : 0);
  tower.ends = norm_elements(tower);
  return tower;
}

Tower so400m(const char* path, int64_t layers, int64_t positions) {
  Tower tower = sized_tower(path, {layers, 1152, 16, 4304});
  tower.patch_inputs = kClipInputs;
  tower.positions = positions;
  return tower;
}

void add_gemma3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  build.weights.plain(Part::vision, Amount{tower.hidden} * build.dims.hidden + tower.hidden);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.tiles_key = "do_pan_and_scan";
  vision.tiles_on = false;
  vision.max_tiles = 4;
  vision.image_size = config.integer({"image_size"}, 896, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = outer.integer({"mm_tokens_per_image"}, 256, {1, 1 << 24});
  build.shape.prefix_images = true;
}

void add_idefics3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "model.vision_model.encoder.layers");
  add_tower(tower, build);
  const int64_t scale = outer.integer({"scale_factor"}, 2, {1, 1 << 10});
  project(build, "model.connector.proj", tower.hidden * scale * scale, build.dims.hidden,
          Split::none, false);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::split;
  vision.tiles_key = "do_image_splitting";
  vision.image_size = config.integer({"image_size"}, 512, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  constexpr int64_t kTilesOnAnEdge = 4;
  vision.longest_edge = kTilesOnAnEdge * vision.image_size;
  vision.tokens_per_image = tower.positions / (scale * scale);
}

namespace {

/// Pixtral's tower of any size of image; its rotary frequencies are kept twice in float32.
Tower add_pixtral_tower(const ConfigView& config, const char* path, Builder& build) {
  Tower tower = read_tower(config, path, {24, 1024, 16, 4096});
  tower.modules = {
      .attention = "attention", .qkv = "qkv_proj", .out = "o_proj", .mlp = "feed_forward"};
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = false;
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.patch_bias = false;
  tower.ends = tower.hidden;
  add_tower(tower, build);
  return tower;
}

void note_pixtral(const ConfigView& config, int64_t merge, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, merge);
  vision.merge = merge;
  vision.kind = VisionShape::Kind::longest_edge;
  vision.longest_edge = config.integer({"image_size"}, 1540, {1, 1 << 20});
  vision.bytes_on_device = true;
}

void add_frequencies(const Tower& tower, Builder& build) {
  build.weights.buffer(Amount{2} * (tower.hidden / tower.heads / 2) * kFloat32);
}

void add_llava_projector(const ConfigView& outer, int64_t inputs, bool usual, Builder& build) {
  const bool bias = outer.flag({"multimodal_projector_bias"}, usual);
  const int64_t hidden = build.dims.hidden;
  project(build, "multi_modal_projector.linear_1", inputs, hidden, Split::outputs, bias);
  project(build, "multi_modal_projector.linear_2", hidden, hidden, Split::inputs, bias);
}

}  // namespace

/// Mistral's wrapper, and LLaVA's around the same tower (without the merger).
void add_pixtral_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const Tower tower = add_pixtral_tower(config, "vision_tower.transformer.layers", build);
  add_frequencies(tower, build);
  const int64_t merge = outer.integer({"spatial_merge_size"}, 2, {1, 1 << 10});
  build.weights.plain(Part::vision, tower.hidden);
  // The merger is torch's own layer, which no method quantizes.
  build.weights.plain(Part::vision, Amount{tower.hidden} * merge * merge * tower.hidden);
  add_llava_projector(outer, tower.hidden, false, build);
  note_pixtral(config, merge, build);
}

/// Pixtral in Mistral's own format: two projections, whole on every rank.
void add_mistral_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  const Tower tower = add_pixtral_tower(config, "vision_encoder.transformer.layers", build);
  const bool merged = config.text({"mm_projector_id"}, "") == "patch_merge";
  const int64_t merge =
      merged ? config.integer({"spatial_merge_size"}, 1, {1, 1 << 10}) : int64_t{1};
  if (config.flag({"add_pre_mm_projector_layer_norm"}, false))
    build.weights.plain(Part::vision, tower.hidden);
  if (merged) {
    project(build, "patch_merger.merging_layer", tower.hidden * merge * merge, tower.hidden,
            Split::none, false);
  }
  const bool bias = config.flag({"adapter_bias"}, true);
  const int64_t hidden = build.dims.hidden;
  project(build, "vision_language_adapter.w_in", tower.hidden, hidden, Split::none, bias);
  project(build, "vision_language_adapter.w_out", hidden, hidden, Split::none, bias);
  note_pixtral(config, merge, build);
}

namespace {

enum class Llava : uint8_t { first, next, video };

/// A CLIP or SigLIP tower and two projections.
void add_llava(const ConfigView& outer, const ConfigView& config, Llava kind, Builder& build) {
  using model::ImageEncoder;
  const ImageEncoder encoder =
      model::encoder_of_type(config.text({"model_type"}, "")).value_or(ImageEncoder::siglip);
  if (encoder == ImageEncoder::pixtral) {
    const Tower pixtral = add_pixtral_tower(config, "vision_tower.transformer.layers", build);
    add_frequencies(pixtral, build);
    add_llava_projector(outer, pixtral.hidden, true, build);
    note_pixtral(config, 1, build);
    return;
  }
  const bool clip = encoder == ImageEncoder::clip;
  Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers", encoder);
  // Several layers' features stand side by side; the tower ends with the last of them.
  std::vector<int64_t> features = outer.integers({"vision_feature_layer"});
  if (features.empty()) features = {-2};
  int64_t last = 0;
  for (const int64_t feature : features) {
    last = std::max(last, feature < 0 ? tower.layers + feature + 1 : feature);
  }
  tower.layers = std::min(tower.layers, last);
  tower.ends = 0;  // features are taken before the last norm
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const bool next = kind == Llava::next;
  if (next) build.weights.plain(Part::vision, build.dims.hidden);  // image_newline
  const bool videos = kind == Llava::video;
  if (videos) {
    const bool bias = outer.flag({"multimodal_projector_bias"}, true);
    project_twice(build, tower.hidden, build.dims.hidden, bias);
  } else {
    add_llava_projector(outer, tower.hidden * std::ssize(features), true, build);
  }
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 336, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const bool whole = outer.text({"vision_feature_select_strategy"}, "default") == "full";
  vision.tokens_per_image = clip && !whole ? tower.positions - 1 : tower.positions;
  vision.rows_per_tile = tower.positions;
  if (next) {
    vision.kind = VisionShape::Kind::any_resolution;
    vision.pinpoints = read_pinpoints(outer, vision);
  }
  if (videos) {
    pool_frames(vision, outer, 0);
    vision.images = false;
    vision.most_videos = 1;
  }
}

}  // namespace

void add_llava_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_llava(outer, config, Llava::first, build);
}

void add_llava_next_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_llava(outer, config, Llava::next, build);
}

void add_llava_video_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_llava(outer, config, Llava::video, build);
}

/// Phi-3-vision: CLIP's tower, merged by squares, with learned separators. The embedding of text is
/// held a second time beside it.
void add_phi3_vision(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView image = outer.child({"img_processor"});
  // Features are taken before the last layer.
  const Tower tower =
      clip_large("vision_embed_tokens.img_processor.vision_model.encoder.layers", 23, 336);
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  build.weights.vocabulary(Part::embedding, build.dims.vocabulary, build.dims.hidden);
  const int64_t merged = 4 * image.integer({"image_dim_out"}, tower.hidden, {1, 1 << 20});
  build.weights.plain(Part::vision, 2 * merged);
  project_twice(build, merged, build.dims.hidden, true);
  build.shape.vision.kind = VisionShape::Kind::other;
}

}  // namespace plimsoll::vllm
