// Towers whose sizes no config spells out: DeepSeek-OCR's two, Phi-4-multimodal's eyes and ears;
// and Ovis 2.5.
#include <algorithm>

#include "vllm/towers/towers.h"

namespace plimsoll::vllm {
namespace {

/// SAM's image encoder with its neck, whole on every rank: rows of 64 x 64 patches become 16 x 16
/// of `out` channels.
Amount sam_elements(int64_t out) {
  constexpr int64_t kWidth = 768;
  constexpr int64_t kLayers = 12;
  constexpr int64_t kPatch = 16;
  constexpr int64_t kSide = 64;
  constexpr int64_t kHead = 64;
  constexpr int64_t kGlobal = 4;  // layers that see the whole image; the others windows of 14
  constexpr int64_t kNeck = 256;
  constexpr int64_t kSquare = 9;
  const Amount layer = layer_norm(kWidth) * 2 + dense(kWidth, 3 * kWidth) + dense(kWidth, kWidth) +
                       dense(kWidth, 4 * kWidth) + dense(4 * kWidth, kWidth);
  const Amount relative =
      Amount{kLayers - kGlobal} * 2 * 27 * kHead + Amount{kGlobal} * 2 * 127 * kHead;
  return layer * kLayers + relative + dense(3 * kPatch * kPatch, kWidth) +
         Amount{kSide} * kSide * kWidth + Amount{kWidth} * kNeck + Amount{kNeck} * kNeck * kSquare +
         layer_norm(kNeck) * 2 + Amount{kNeck} * 2 * kNeck * kSquare +
         Amount{2 * kNeck} * out * kSquare;
}

}  // namespace

/// DeepSeek-OCR: SAM's features beside CLIP's.
void add_deepseek_ocr(const ConfigView&, const ConfigView&, Builder& build) {
  const Tower tower = clip_large("vision_model.transformer.layers", 24, 224);
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionIdBytes);
  const int64_t hidden = build.dims.hidden;
  build.weights.plain(Part::vision, sam_elements(tower.hidden) + dense(2 * tower.hidden, hidden) +
                                        2 * hidden);  // newline and separator
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// DeepSeek-VL2: timm's SigLIP so400m with the pooling that nothing reads, of which the
/// feed-forwards alone are divided over ranks.
void add_deepseek_vl2(const ConfigView& outer, const ConfigView&, Builder& build) {
  Tower tower = so400m("vision.blocks", 27, 27 * 27);
  tower.split_attention = tower.quantized = false;
  tower.ends = 2 * tower.hidden;
  add_tower(tower, build);
  const int64_t width = tower.hidden;
  build.weights.plain(Part::vision, Amount{width} + dense(width, width) * 2 +
                                        dense(width, 2 * width) + layer_norm(width));
  project(build, "vision.attn_pool.mlp.fc1", width, tower.intermediate, Split::outputs, true);
  project(build, "vision.attn_pool.mlp.fc2", tower.intermediate, width, Split::inputs, true);
  const ConfigView config = outer.child({"projector_config"});
  const int64_t inputs = config.integer({"input_dim"}, width, {1, 1 << 20});
  const int64_t outputs = config.integer({"n_embed"}, 2048, {1, 1 << 20});
  build.weights.plain(Part::vision, 2 * outputs);  // newline and separator
  build.shape.vision.kind = VisionShape::Kind::other;
  if (config.text({"projector_type"}, "downsample_mlp_gelu") == "linear") {
    build.weights.plain(Part::vision, dense(inputs, outputs));
    return;
  }
  const int64_t stride = config.integer({"downsample_ratio"}, 2, {1, 1 << 10});
  const int64_t between = outputs * config.integer({"mlp_ratio"}, 1, {1, 1 << 10});
  const int64_t deep = config.integer({"depth"}, 2, {1, 1 << 10});
  build.weights.plain(Part::vision, dense(inputs * stride * stride, between) +
                                        dense(between, between) * std::max<int64_t>(0, deep - 2) +
                                        dense(between, outputs));
}

/// DeepSeek-OCR 2: SAM's features, read by a Qwen2 of 24 layers.
void add_deepseek_ocr2(const ConfigView&, const ConfigView&, Builder& build) {
  constexpr int64_t kWidth = 896;
  constexpr int64_t kCached = 128;
  constexpr int64_t kWide = 4864;
  constexpr int64_t kLayers = 24;
  constexpr int64_t kQueries = 256 + 144;  // of whole images and of tiles
  const Amount layer = dense(kWidth, kWidth) + dense(kWidth, kCached) * 2 +
                       Amount{kWidth} * kWidth + Amount{3} * kWidth * kWide + 2 * kWidth;
  const int64_t hidden = build.dims.hidden;
  build.weights.plain(Part::vision, sam_elements(kWidth) + layer * kLayers +
                                        Amount{kQueries + 1} * kWidth + dense(kWidth, hidden) +
                                        hidden);
  constexpr int64_t kFrequencies = 32;
  build.weights.buffer(Amount{2} * kFrequencies * kFloat32);
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// Ovis 2.5: SigLIP 2 with rotary positions; what it sees becomes a mixture of visual words.
void add_ovis25_vision(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"vit_config"});
  const Tower tower = siglip_tower(config, "visual_tokenizer.vit.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.hidden / tower.heads / 4} * kFloat32);
  constexpr int64_t kMarks = 4;
  const int64_t words = outer.integer({"visual_vocab_size"}, 65536, {kMarks + 1, 1 << 24});
  const int64_t stride = config.integer({"hidden_stride"}, 2, {1, 1 << 10});
  add_visual_words(build, tower.hidden, stride, words, kMarks);
  build.shape.vision.kind = VisionShape::Kind::other;
}

namespace {

/// Phi-4-multimodal's conformer, whole on every rank.
void add_phi4_ears(Builder& build) {
  constexpr int64_t kWidth = 1024;
  constexpr int64_t kWide = 1536;
  constexpr int64_t kLayers = 24;
  constexpr int64_t kPitches = 80;
  constexpr int64_t kPitchesLeft = kPitches / 8;
  const Amount feed = layer_norm(kWidth) + dense(kWidth, 2 * kWide) + dense(kWide, kWidth);
  const Amount square = dense(kWidth, kWidth);
  const Amount convolution =
      layer_norm(kWidth) + 2 * kWidth + dense(kWidth, 2 * kWidth) + square * 2 + dense(3, kWidth);
  const Amount layer = feed * 2 + square * 4 + convolution + layer_norm(kWidth) * 2;
  const Amount front = dense(kWidth * kPitchesLeft, kWidth) + dense(9, kWidth) * 3 + square * 2;
  constexpr int64_t kDistances = 1000;
  constexpr int64_t kHeads = 16;
  const int64_t hidden = build.dims.hidden;
  const Amount projector = dense(kWidth, hidden) + dense(hidden, hidden);
  // One projector for speech alone, one for speech beside images.
  build.weights.plain(Part::vision, layer * kLayers + front + Amount{kDistances} * kHeads +
                                        2 * kPitches + projector * 2);
  build.weights.buffer(build.options.element);  // a single number that has the dtype
}

}  // namespace

/// Phi-4-multimodal: SigLIP's tower without its last layer, with learned separators; a conformer.
void add_phi4_senses(const ConfigView&, const ConfigView&, Builder& build) {
  if (wanted(build, {"audio"})) add_phi4_ears(build);
  build.shape.vision.kind = VisionShape::Kind::other;
  if (!wanted(build, {"image", "video"})) return;
  const Tower tower = so400m("vision_encoder.img_processor.encoder.layers", 26, 32 * 32);
  add_tower(tower, build);
  build.weights.plain(Part::vision, 2 * tower.hidden);
  project_twice(build, tower.hidden, build.dims.hidden, true);
}

}  // namespace plimsoll::vllm
