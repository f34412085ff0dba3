// C-RADIO behind NVIDIA's vision models: Nemotron Nano VL over Llama and over Nemotron-H.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

struct RadioSizes {
  std::string_view name;
  TowerSizes sizes;
};
/// Sizes of encoders by timm's names for them (vllm/transformers_utils/configs/radio.py).
constexpr auto kSizes = std::to_array<RadioSizes>({
    {"vit_small_patch16_224", {12, 384, 6, 1536}},
    {"vit_base_patch16_224", {12, 768, 12, 3072}},
    {"vit_large_patch16_224", {24, 1024, 16, 4096}},
    {"vit_huge_patch16_224", {32, 1280, 16, 5120}},
});

/// Tokens before the patches: one, or one for each teacher, and registers up to a multiple.
int64_t leading_tokens(const ConfigView& args) {
  int64_t classes = 1;
  const auto teachers = args.json().find("teachers");
  if (args.flag({"cls_token_per_teacher"}, false) && teachers != args.json().end() &&
      teachers->is_array()) {
    std::set<std::string> names;
    for (const Json& teacher : *teachers) {
      if (teacher.is_object() && teacher.contains("name")) names.insert(teacher["name"].dump());
    }
    classes = static_cast<int64_t>(names.size());
  }
  const int64_t multiple = args.integer({"register_multiple"}, 0, {0, 1 << 10});
  return multiple > 0 ? classes + multiple - classes % multiple : classes;
}

Tower radio_tower(const ConfigView& config, const char* path) {
  const ConfigView args = config.child({"args"});
  const std::string name = args.text({"model"}, "vit_huge_patch16_224");
  const auto* row = std::ranges::find(kSizes, name, &RadioSizes::name);
  if (row == kSizes.end()) row = &kSizes.back();
  Tower tower;
  tower.path = path;
  tower.layers = row->sizes.layers;
  tower.hidden = row->sizes.hidden;
  tower.heads = row->sizes.heads;
  tower.intermediate = row->sizes.intermediate;
  tower.layer_extras = 2 * tower.hidden;  // layer scales
  const int64_t patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  const int64_t side = args.integer({"cpe_max_size"}, 2048, {1, 1 << 20}) / patch;
  tower.patch_inputs = 3 * patch * patch;
  tower.patch_bias = false;
  tower.positions = side * side;
  return tower;
}

}  // namespace

/// Over Llama: transformers' own encoder, whole on every rank.
void add_nemotron_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = radio_tower(config, "vision_model.encoder.layer");
  tower.split_attention = tower.split_mlp = tower.quantized = false;
  constexpr int64_t kLeading = 10;  // class tokens and registers of its config class
  tower.ends = kLeading * tower.hidden;
  add_tower(tower, build);
  constexpr int64_t kSummaries = 16;  // two indices of int64
  build.weights.buffer(kSummaries + Amount{6} * build.options.element);
  const int64_t merge = merged_side(outer);
  add_mlp1(build, tower.hidden * merge * merge,
           outer.integer({"projector_hidden_size"}, build.dims.hidden, {1, 1 << 24}), true);
  VisionShape& vision = build.shape.vision;
  read_tiles(vision, outer, outer.integer({"force_image_size"}, 512, {1, 1 << 20}),
             config.integer({"patch_size"}, 16, {1, 1 << 16}));
  vision.rows_per_tile += kLeading - 1;
}

/// Over Nemotron-H: vLLM's encoder, with a second embedding of patches where frames go in groups.
void add_nemotron_hybrid_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = radio_tower(config, "vision_model.model.encoder.layers");
  const ConfigView args = config.child({"args"});
  tower.whole_attention_if_uneven = true;
  tower.quantized = false;
  tower.ends = leading_tokens(args) * tower.hidden;
  const int64_t frames = config.integer({"video_temporal_patch_size"}, 1, {1, 1 << 10});
  if (frames > 1) tower.ends += frames * tower.patch_inputs * tower.hidden;
  add_tower(tower, build);
  const auto teachers = args.json().find("teachers");
  if (teachers != args.json().end() && teachers->is_array()) {
    const auto seen = std::ranges::count_if(*teachers, [](const Json& teacher) {
      return !teacher.is_object() || teacher.value("use_summary", true);
    });
    build.weights.buffer(Amount{static_cast<int64_t>(seen)} * 8);  // int64
  }
  const int64_t merge = merged_side(outer);
  const int64_t merged = tower.hidden * merge * merge;
  const int64_t between = outer.integer({"projector_hidden_size"}, 20480, {1, 1 << 24});
  build.weights.plain(Part::vision, merged);
  project_twice(build, merged, between, false);
  if (build.config.integer({"num_nextn_predict_layers"}, 0) > 0)
    build.weights.plain(Part::vision, layer_norm(tower.hidden));
  build.shape.vision.kind = VisionShape::Kind::other;
  if (!outer.has_child({"sound_config"})) return;
  build.shape.estimated = true;
  build.shape.note =
      "the encoder of sound is not known: its weights and memory are not in the plan";
}

}  // namespace plimsoll::vllm
