// InternViT and the models that read its tokens: InternVL in both layouts, NVLM, H2OVL,
// Skywork-R1V, Eagle 2.5.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "model/towers/towers.h"
#include "vllm/towers/described_tower.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

/// InternVL takes videos where its language model's tokenizer has a token for them.
bool knows_video_token(const ConfigView& text) {
  const std::string type = text.text({"model_type"}, "");
  constexpr auto kWithToken =
      std::to_array<std::string_view>({"qwen2", "qwen3", "qwen3_moe", "gpt_oss"});
  return std::ranges::find(kWithToken, type) != kWithToken.end();
}

}  // namespace

int64_t merged_side(const ConfigView& outer) {
  const double ratio = outer.number({"downsample_ratio"}, 0.5);
  return std::max<int64_t>(1, std::llround(1.0 / std::max(ratio, 0.01)));
}

void read_tiles(VisionShape& vision, const ConfigView& outer, int64_t image, int64_t patch) {
  const int64_t side = image / patch;
  const int64_t merge = merged_side(outer);
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = image;
  vision.patch = patch;
  vision.tokens_per_image = side * side / (merge * merge);
  vision.rows_per_tile = side * side + 1;
  const bool dynamic = outer.flag({"dynamic_image_size"}, true);
  constexpr Bounds kTiles{1, 1 << 10};
  vision.max_tiles =
      dynamic ? outer.integer({"max_dynamic_patch", "max_dynamic_tiles"}, 12, kTiles) : 1;
  vision.thumbnail = outer.flag({"use_thumbnail"}, true);
}

void add_mlp1(Builder& build, int64_t merged, int64_t between, bool bias) {
  build.weights.plain(Part::vision, 2 * merged);
  project(build, "mlp1.1", merged, between, Split::none, bias);
  project(build, "mlp1.3", between, build.dims.hidden, Split::none, bias);
}

namespace {

/// Differences between InternVL's kin.
struct InternKind {
  bool dummy_heads = false;   // heads without weights of their own, and a projector as wide as MLPs
  bool second_tiles = false;  // a coarser set of tiles beside the first; one thumbnail
  bool videos = false;
};

void add_intern_tower(const ConfigView& outer, const ConfigView& config, const InternKind& kind,
                      Builder& build) {
  model::InternVit vit = model::read_intern_vit(model::ConfigReader::describing(config.json()));
  constexpr int64_t kDummyHeads = 7;  // 7 more heads, so that 8 ranks divide them
  if (kind.dummy_heads) vit.dummy_heads = kDummyHeads;
  model::VisionSizes& sizes = vit.sizes;
  const std::vector<int64_t> selected = outer.integers({"select_layer"});
  if (!selected.empty() && selected.front() < -1) {
    sizes.layers = std::max<int64_t>(0, sizes.layers + selected.front() + 1);
  } else if (!selected.empty() && selected.front() >= 0) {
    sizes.layers = std::min(sizes.layers, selected.front() + 1);
  }
  std::vector<model::WeightSpec> table;
  model::SpecBuilder add(table);
  model::VisionSpec described;
  model::add_intern_vit("vision_model", vit, add, described);
  add_described_tower(table, {sizes.hidden, sizes.intermediate, false}, build);
  const int64_t merge = merged_side(outer);
  add_mlp1(build, sizes.hidden * merge * merge,
           kind.dummy_heads ? build.dims.intermediate : build.dims.hidden, !kind.dummy_heads);
  const int64_t image = outer.integer(
      {"force_image_size"}, config.integer({"image_size"}, 448, {1, 1 << 20}), {1, 1 << 20});
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  VisionShape& vision = build.shape.vision;
  read_tiles(vision, outer, image, patch);
  if (kind.second_tiles && outer.flag({"use_msac"}, true)) vision.max_tiles *= 2;
  if (kind.videos && knows_video_token(build.config)) {
    vision.video = VisionShape::Video::tiles;
    vision.tokens_per_frame = vision.tokens_per_image;
  }
}

}  // namespace

void add_intern_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_intern_tower(outer, config, {.videos = true}, build);
}

void add_nvlm_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_intern_tower(outer, config, {.dummy_heads = true}, build);
}

void add_h2o_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_intern_tower(outer, config, {.second_tiles = true}, build);
}

void add_skywork_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  add_intern_tower(outer, config, {}, build);
}

/// Eagle 2.5: a SigLIP tower behind InternVL's processor.
void add_eagle_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const Tower tower = siglip_tower(config, "vision_model.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const int64_t merge = merged_side(outer);
  add_mlp1(build, tower.hidden * merge * merge, build.dims.hidden, true);
  VisionShape& vision = build.shape.vision;
  read_tiles(vision, outer, config.integer({"image_size"}, 448, {1, 1 << 20}),
             config.integer({"patch_size"}, 14, {1, 1 << 16}));
  vision.rows_per_tile = tower.positions;
}

/// InternVL in transformers' own layout: its attention is not divided over ranks.
void add_intern_hf_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const int64_t patch = first_of(config, "patch_size", 14);
  const int64_t image = first_of(config, "image_size", 448);
  const int64_t side = image / patch;
  Tower tower = read_tower(config, "vision_tower.encoder.layer", {24, 1024, 16, 4096});
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
  vision.rows_per_tile = side * side + 1;
  vision.max_tiles = 12;
  vision.tiles_key = "crop_to_patches";
  vision.tiles_on = false;
  vision.video = VisionShape::Video::tiles;
  vision.tokens_per_frame = vision.tokens_per_image;
}

}  // namespace plimsoll::vllm
