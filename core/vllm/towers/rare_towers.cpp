// Towers of models that vLLM does not run, counted from their published parts.
#include <algorithm>
#include <array>

#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

Tower whole_so400m(int64_t layers, int64_t positions) {
  Tower tower = so400m("vision_tower.encoder.layers", layers, positions);
  tower.split_attention = tower.split_mlp = false;
  tower.ends = 2 * tower.hidden;
  return tower;
}

/// A resampler: learned queries attend to the tower's output.
void add_query_resampler(Builder& build, int64_t queries, int64_t inputs) {
  const Amount width = build.dims.hidden;
  const Amount attention = width * width * 4 + width * 4;
  const Amount ends = width * 6 + width * width + width * queries + width * inputs;
  build.weights.plain(Part::vision, attention + ends);
}

/// ConvNeXt-XXL of CLIP: four stages of 7 x 7 convolutions.
void add_convnext(Builder& build) {
  constexpr int64_t kWidths[] = {384, 768, 1536, 3072};
  constexpr int64_t kDepths[] = {3, 4, 30, 3};
  Amount elements = 3 * 16 * 384 + 3 * 384;
  for (int stage = 0; stage < 4; ++stage) {
    const Amount width = kWidths[stage];
    const Amount block = width * 49 + width * 3 + width * width * 8 + width * 5 + width;
    elements += block * kDepths[stage];
    if (stage > 0) {
      const Amount before = kWidths[stage - 1];
      elements += before * 2 + before * width * 4 + width;
    }
  }
  elements += 2 * 3072 + 3072 * 1024 + 1024;
  build.weights.plain(Part::vision, elements);
}

/// A perceiver between tower and language model (xGen-MM): six layers of latents.
void add_perceiver(Builder& build) {
  constexpr int64_t kWidth = 1152;
  constexpr int64_t kInner = 1536;
  constexpr int64_t kLatents = 128;
  const Amount layer = Amount{kWidth} * kInner * 4 + Amount{8} * kWidth * kWidth + 6 * kWidth;
  build.weights.plain(
      Part::vision, layer * 6 + Amount{kLatents} * kWidth + Amount{kWidth + 1} * build.dims.hidden);
}

void add_logics(const ConfigView& config, Builder& build) {
  add_tower(whole_so400m(26, 729), build);
  add_convnext(build);
  const int64_t inputs = config.integer({"mm_hidden_size"}, 4224);
  build.weights.plain(Part::vision, Amount{inputs + build.dims.hidden + 2} * build.dims.hidden);
}

void add_xgen(const ConfigView&, Builder& build) {
  add_tower(whole_so400m(27, 729), build);
  build.weights.plain(Part::vision,
                      Amount{4} * 1152 * 1152 + Amount{2} * 1152 * 4304);  // pooling head
  add_perceiver(build);
}

void add_locate_anything(const ConfigView&, Builder& build) {
  const Tower tower = whole_so400m(27, 4096);
  add_tower(tower, build);
  const Amount merged = 4 * tower.hidden;
  build.weights.plain(Part::vision,
                      merged * 2 + (merged + build.dims.hidden + 2) * build.dims.hidden);
}

void add_llama3v(const ConfigView& config, Builder& build) {
  add_tower(whole_so400m(27, 4900), build);
  add_query_resampler(build, config.integer({"query_num"}, 96), 1152);
}

struct RareTower {
  const char* name;  // architecture, or model_type where that is a plain one
  void (*add)(const ConfigView& config, Builder& build);
};
constexpr auto kRareTowers =
    std::to_array<RareTower>({{"LogicsForConditionalGeneration", add_logics},
                              {"XGenMMModelForConditionalGeneration", add_xgen},
                              {"LocateAnythingForConditionalGeneration", add_locate_anything},
                              {"llama3v", add_llama3v}});

const RareTower* find_rare(const std::string& name) {
  const auto* const row = std::ranges::find(kRareTowers, name, &RareTower::name);
  return row == kRareTowers.end() ? nullptr : row;
}

}  // namespace

bool is_rare_tower(const std::string& architecture) {
  return find_rare(architecture) != nullptr;
}

bool add_rare_towers(const ConfigView& config, const std::string& architecture, Builder& build) {
  const RareTower* row = find_rare(architecture);
  if (row == nullptr) row = find_rare(config.text({"model_type"}, ""));
  if (row == nullptr) return false;
  row->add(config, build);
  build.shape.vision.kind = VisionShape::Kind::other;
  build.shape.note =
      "a model that vLLM does not run: its towers are counted from their published parts";
  return true;
}

}  // namespace plimsoll::vllm
