// Towers of small models that read pages: GLM-OCR's is in projected_towers.cpp.
#include <algorithm>

#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

/// A SigLIP tower that takes images of any size, as PaddleOCR-VL and Keye have it.
Tower add_free_siglip(const ConfigView& config, const char* path, int64_t extra_positions,
                      Builder& build) {
  Tower tower = siglip_tower(config, path);
  const int64_t learned = tower.positions;
  tower.positions += extra_positions;
  add_tower(tower, build);
  build.weights.buffer(Amount{learned} * kPositionIdBytes);
  build.weights.buffer(Amount{tower.hidden / tower.heads / 4} * kFloat32);  // rotary frequencies
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.temporal_patch = 1;
  return tower;
}

}  // namespace

void add_paddle_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  const Tower tower = add_free_siglip(config, "visual.vision_model.encoder.layers", 0, build);
  VisionShape& vision = build.shape.vision;
  const int64_t merged = tower.hidden * vision.merge * vision.merge;
  build.weights.plain(Part::vision, layer_norm(tower.hidden) + dense(merged, merged) +
                                        dense(merged, build.dims.hidden));
  vision.default_min_pixels = 147384;
  vision.default_max_pixels = 2822400;
}

namespace {

/// Keye-VL normalises patches before they are merged, Keye-VL-1.5 after that.
void add_keye(const ConfigView& config, bool before, Builder& build) {
  constexpr int64_t kPackedPositions = 32768;
  const Tower tower =
      add_free_siglip(config, "visual.vision_model.encoder.layers", kPackedPositions, build);
  VisionShape& vision = build.shape.vision;
  const int64_t merged = tower.hidden * vision.merge * vision.merge;
  build.weights.plain(Part::vision, layer_norm(before ? tower.hidden : merged));
  project(build, "mlp_AR.linear_1", merged, merged, Split::outputs, true);
  project(build, "mlp_AR.linear_2", merged, build.dims.hidden, Split::inputs, true);
  vision.kind = VisionShape::Kind::other;
}

}  // namespace

void add_keye_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_keye(config, true, build);
}

void add_keye15_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_keye(config, false, build);
}

/// dots.ocr: a gated tower with RMS norms.
void add_dots_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  Tower tower = read_tower(config, "vision_tower.blocks", {42, 1536, 12, 4224});
  tower.modules.up = "fc13";
  tower.modules.down = "fc2";
  tower.hidden = config.integer({"embed_dim"}, 1536, {1, 1 << 20});
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = config.flag({"use_bias"}, false);
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * vision.temporal_patch *
                       vision.patch * vision.patch;
  tower.ends = tower.hidden;  // after the patches
  if (config.flag({"post_norm"}, true)) tower.ends += tower.hidden;
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.hidden / tower.heads / 4} * kFloat32);
  const int64_t merged = tower.hidden * vision.merge * vision.merge;
  const int64_t out = config.integer({"hidden_size"}, 1536, {1, 1 << 20});
  build.weights.plain(Part::vision, layer_norm(tower.hidden));
  project(build, "vision_tower.merger.mlp.0", merged, merged, Split::outputs, true);
  project(build, "vision_tower.merger.mlp.2", merged, out, Split::inputs, true);
  vision.default_min_pixels = 3136;
  vision.default_max_pixels = 11289600;
}

/// ERNIE-4.5-VL: a tower with rotary positions, and a resampler over squares of patches and pairs
/// of frames, of which the checkpoint's quantization knows nothing.
void add_ernie_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_model.blocks", {32, 1280, 16, 5120});
  const double ratio = config.number({"mlp_ratio"}, 4.0);
  if (ratio > 0 && ratio < 1024)
    tower.intermediate = static_cast<int64_t>(ratio * static_cast<double>(tower.hidden));
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = config.integer({"in_channels"}, 3, kChannels) * patch * patch;
  tower.patch_bias = false;
  tower.ends = norm_elements(tower);
  add_tower(tower, build);
  constexpr int64_t kVisualIds = 8;  // one of int64
  build.weights.buffer(Amount{tower.hidden / tower.heads / 4} * kFloat32 + kVisualIds);
  const int64_t side = outer.integer({"spatial_conv_size"}, 2, {1, 1 << 10});
  const int64_t frames = outer.integer({"temporal_conv_size"}, 2, {1, 1 << 10});
  const int64_t wide =
      outer.integer({"pixel_hidden_size"}, tower.hidden, {1, 1 << 20}) * side * side;
  const auto compress = [&](const char* name, int64_t inputs, int64_t outputs) {
    build.weights.linear(
        Part::vision,
        {{"resampler_model", name, {}}, inputs, {outputs}, Split::outputs, true, false});
  };
  compress("spatial_linear1", wide, wide);
  compress("spatial_linear2", wide, wide);
  Amount norms = layer_norm(wide) + build.dims.hidden;
  if (outer.flag({"use_temporal_conv"}, true)) {
    compress("temporal_linear1", wide * frames, wide);
    compress("temporal_linear2", wide, wide);
    norms += layer_norm(wide);
  }
  compress("mlp", wide, build.dims.hidden);
  build.weights.plain(Part::vision, norms);
  build.shape.vision.kind = VisionShape::Kind::other;
}

}  // namespace plimsoll::vllm
