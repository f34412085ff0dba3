// Towers of Qwen-VL and its kin: patches of any number, merged by squares.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "model/towers/towers.h"
#include "vllm/towers/described_tower.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {

namespace {

constexpr model::VllmVersion kRotaryTable{0, 12, 0};  // before: frequencies in float32

/// Half of a head's elements are rotated.
void add_tower_rotary(int64_t head_size, Builder& build) {
  constexpr int64_t kRotaryPositions = 8192;
  const int64_t rotated = head_size / 2;
  build.weights.buffer(build.options.version < kRotaryTable
                           ? Amount{rotated / 2} * kFloat32
                           : Amount{kRotaryPositions} * rotated * build.options.element);
}

/// Qwen2-VL and Qwen2.5-VL.
void add_qwen_vision(const ConfigView& config, Builder& build, model::QwenTower kind) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  vision.video = VisionShape::Video::patches;
  vision.most_frames = 14;
  vision.bytes_on_device = true;
  vision.default_min_pixels = 56 * 56;
  vision.default_max_pixels = int64_t{28} * 28 * 16384;
  const auto qwen = model::read_qwen_vision(model::ConfigReader::describing(config.json()), kind);
  std::vector<model::WeightSpec> table;
  model::SpecBuilder add(table);
  model::VisionSpec described;
  model::add_qwen_vision("visual", qwen, add, described);
  const model::VisionSizes& sizes = qwen.sizes;
  add_described_tower(table, {sizes.hidden, sizes.intermediate, kind == model::QwenTower::gated},
                      build);
  add_tower_rotary(sizes.hidden / sizes.heads, build);
}

}  // namespace

void add_qwen2_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_qwen_vision(config, build, model::QwenTower::plain);
}

void add_qwen2_5_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_qwen_vision(config, build, model::QwenTower::gated);
}

namespace {

/// Learned positions, and mergers of deeper layers: `deep` of them where the config lists none.
void add_deep_vision(const ConfigView& config, Builder& build, int64_t deep) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 16, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  vision.video = VisionShape::Video::budget;
  vision.bytes_on_device = true;
  vision.default_min_pixels = 65536;
  vision.default_max_pixels = 16777216;
  vision.video_min_pixels = 4096;
  vision.video_max_pixels = 25165824;
  Tower tower = read_tower(config, "visual.blocks", {27, 1152, 16, 4304});
  tower.modules.up = "linear_fc1";
  tower.modules.down = "linear_fc2";
  tower.patch_inputs = config.integer({"in_channels"}, 3, kChannels) * vision.temporal_patch *
                       vision.patch * vision.patch;
  tower.positions = config.integer({"num_position_embeddings"}, 2304);
  add_tower(tower, build);
  const int64_t merged = tower.hidden * vision.merge * vision.merge;
  const int64_t out = config.integer({"out_hidden_size"}, build.dims.hidden);
  if (config.has("deepstack_visual_indexes")) {
    deep = std::ssize(config.integers({"deepstack_visual_indexes"}));
  }
  vision.deep_levels = deep;
  for (int64_t i = 0; i <= deep; ++i) {
    build.weights.plain(Part::vision, 2 * (i == 0 ? tower.hidden : merged));
    const std::string merger =
        i == 0 ? "visual.merger" : fmt::format("visual.deepstack_merger_list.{}", i - 1);
    project(build, (merger + ".linear_fc1").c_str(), merged, merged, Split::outputs, true);
    project(build, (merger + ".linear_fc2").c_str(), merged, out, Split::inputs, true);
  }
  add_tower_rotary(tower.hidden / tower.heads, build);
}

}  // namespace

void add_qwen3_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_deep_vision(config, build, 3);
}

void add_qwen3_5_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_deep_vision(config, build, 0);
}

/// MiniMax-M3: patches projected one by one, then merged. The last layer's norm is none of vLLM's.
void add_minimax_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  const ConfigView compression = config.child({"img_token_compression_config"});
  vision.merge = compression.integer({"spatial_merge_size"}, 2, {1, 1 << 10});
  vision.temporal_patch = compression.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  Tower tower = read_tower(config, "vision_model.encoder.layers", {32, 1280, 16, 5120});
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * vision.temporal_patch *
                       vision.patch * vision.patch;
  tower.patch_bias = false;
  tower.ends = norm_elements(tower);  // before the layers
  add_tower(tower, build);
  const int64_t hidden = build.dims.hidden;
  const int64_t between = outer.integer({"projector_hidden_size"}, hidden, {1, 1 << 20});
  const bool biased = config.flag({"multimodal_projector_bias"}, true);
  const bool merge_biased = config.flag({"patch_merge_bias"}, true);
  project(build, "multi_modal_projector.linear_1", tower.hidden, between, Split::outputs, biased);
  project(build, "multi_modal_projector.linear_2", between, hidden, Split::inputs, biased);
  project(build, "patch_merge_mlp.linear_1", hidden * vision.merge * vision.merge, between,
          Split::outputs, merge_biased);
  project(build, "patch_merge_mlp.linear_2", between, hidden, Split::inputs, merge_biased);
  const int64_t speeds = tower.hidden / tower.heads / 2 * 2 / 3 / 2;  // of time, rows and columns
  build.weights.buffer(Amount{3} * speeds * kFloat32);
  vision.kind = VisionShape::Kind::other;
}

}  // namespace plimsoll::vllm
