// Towers of models that vLLM does not run, counted from their published parts.
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

/// Its images have a size that nothing here knows.
void note_published(Builder& build) {
  build.shape.vision.kind = VisionShape::Kind::other;
  build.shape.note =
      "a model that vLLM does not run: its towers are counted from their published parts";
}

}  // namespace

void add_logics(const ConfigView& config, const ConfigView&, Builder& build) {
  add_tower(whole_so400m(26, 729), build);
  add_convnext(build);
  const int64_t inputs = config.integer({"mm_hidden_size"}, 4224);
  build.weights.plain(Part::vision, Amount{inputs + build.dims.hidden + 2} * build.dims.hidden);
  note_published(build);
}

void add_xgen(const ConfigView&, const ConfigView&, Builder& build) {
  add_tower(whole_so400m(27, 729), build);
  build.weights.plain(Part::vision,
                      Amount{4} * 1152 * 1152 + Amount{2} * 1152 * 4304);  // pooling head
  add_perceiver(build);
  note_published(build);
}

void add_locate_anything(const ConfigView&, const ConfigView&, Builder& build) {
  const Tower tower = whole_so400m(27, 4096);
  add_tower(tower, build);
  const Amount merged = 4 * tower.hidden;
  build.weights.plain(Part::vision,
                      merged * 2 + (merged + build.dims.hidden + 2) * build.dims.hidden);
  note_published(build);
}

void add_llama3v(const ConfigView& config, const ConfigView&, Builder& build) {
  add_tower(whole_so400m(27, 4900), build);
  add_query_resampler(build, config.integer({"query_num"}, 96), 1152);
  note_published(build);
}

}  // namespace plimsoll::vllm
