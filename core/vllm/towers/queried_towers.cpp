// Towers whose tokens are read by learned queries: MiniCPM-V, BLIP-2, Aria, Molmo.
#include <algorithm>

#include "model/families/multimodal/languages.h"
#include "vllm/towers/towers.h"

namespace plimsoll::vllm {

Amount qformer_elements(const ConfigView& config, int64_t encoder_hidden) {
  const int64_t hidden = config.integer({"hidden_size"}, 768, {1, 1 << 20});
  const int64_t layers = config.integer({"num_hidden_layers"}, 12, kTowerLayers);
  const int64_t wide = config.integer({"intermediate_size"}, 3072, {1, 1 << 24});
  const int64_t every = config.integer({"cross_attention_frequency"}, 2, {1, 1 << 16});
  const int64_t crossing = (layers + every - 1) / every;
  const Amount square = dense(hidden, hidden);
  const Amount own = square * 4 + layer_norm(hidden);
  const Amount across = square * 2 + dense(encoder_hidden, hidden) * 2 + layer_norm(hidden);
  const Amount feed = dense(hidden, wide) + dense(wide, hidden) + layer_norm(hidden);
  return layer_norm(hidden) + (own + feed) * layers + across * crossing;
}

void add_blip2_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_model.encoder.layers", {39, 1408, 16, 6144});
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t image = config.integer({"image_size"}, 224, {1, 1 << 20});
  const int64_t side = image / patch;
  tower.patch_inputs = 3 * patch * patch;
  tower.positions = side * side + 1;
  tower.qkv_bias = config.flag({"qkv_bias"}, true);
  tower.ends = tower.hidden + norm_elements(tower);  // class token, last norm
  add_tower(tower, build);
  const ConfigView reader = outer.child({"qformer_config"});
  const int64_t width = reader.integer({"hidden_size"}, 768, {1, 1 << 20});
  const int64_t queries = outer.integer({"num_query_tokens"}, 32, {1, 1 << 20});
  build.weights.plain(Part::vision, qformer_elements(reader, reader.integer({"encoder_hidden_size"},
                                                                            1408, {1, 1 << 20})) +
                                        Amount{queries} * width + dense(width, build.dims.hidden));
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = image;
  vision.patch = patch;
  vision.tokens_per_image = queries;
  vision.rows_per_tile = tower.positions;
  vision.most_images = 1;
}

void add_aria_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "vision_tower.encoder.layers");
  tower.ends = 0;  // features are taken before the last norm
  const int64_t feature = outer.integer({"vision_feature_layer"}, -1, {-10000, 10000});
  if (feature < -1) tower.layers = std::max<int64_t>(0, tower.layers + feature + 1);
  add_tower(tower, build);
  const int64_t width = tower.hidden;
  const int64_t queries = outer.integer({"max_value_projector_patch_to_query_dict"}, 256);
  const Amount attention =
      Amount{width} * width * 3 + dense(width, width * 3) + dense(width, width) * 2;
  build.weights.plain(Part::vision, Amount{queries} * width + attention + layer_norm(width) * 3);
  project(build, "multi_modal_projector.feed_forward.linear_in", width, build.dims.hidden,
          Split::outputs, false);
  project(build, "multi_modal_projector.feed_forward.linear_out", build.dims.hidden,
          build.dims.hidden, Split::inputs, false);
  build.shape.vision.kind = VisionShape::Kind::other;
}

namespace {

/// MiniCPM-V's resampler: learned queries attend to the tower's output.
void add_resampler(Builder& build, int64_t queries, int64_t inputs) {
  const int64_t width = build.dims.hidden;
  Amount elements = Amount{queries} * width + Amount{width} * width + dense(width, width * 3) +
                    dense(width, width) + layer_norm(width) * 3;
  if (inputs != width) elements += Amount{inputs} * width;
  build.weights.plain(Part::vision, elements);
}

}  // namespace

/// MiniCPM-V 2.5 and later: a SigLIP tower for slices of the image.
void add_minicpm_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vpm.encoder.layers", {27, 1152, 16, 4304});
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t side = config.integer({"image_size"}, 980, {1, 1 << 20}) / patch;
  tower.patch_inputs = 3 * patch * patch;
  tower.positions = side * side;
  tower.ends = norm_elements(tower);
  if (outer.flag({"drop_vision_last_layer"}, true))
    tower.layers = std::max<int64_t>(0, tower.layers - 1);
  add_tower(tower, build);
  const int64_t queries = outer.integer({"query_num"}, 64, {1, 1 << 20});
  add_resampler(build, queries, tower.hidden);
  constexpr int64_t kSide = 70;  // of the table of positions
  // MiniCPM-V 4.5 counts time too.
  const int64_t times = model::mini_cpm_version(outer) == "4.5" ? 36000 : 0;
  build.weights.buffer(Amount{kSide * kSide + times} * build.dims.hidden * build.options.element);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = outer.integer({"image_size"}, 448, {1, 1 << 20});
  vision.patch = patch;
  vision.tokens_per_image = queries;
  vision.max_tiles = outer.child({"slice_config"}).integer({"max_slice_nums"}, 9, {1, 1 << 10});
}

/// MiniCPM-V 4.6 and 4.7: squares of patches are merged twice, inside the tower and behind it.
void add_minicpm46_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "vpm.encoder.layers");
  add_tower(tower, build);
  const int64_t width = tower.hidden;
  const int64_t merged = 4 * width;
  project(build, "vit_merger.self_attn.qkv_proj", width, 3 * width, Split::outputs, true);
  project(build, "vit_merger.self_attn.out_proj", width, width, Split::inputs, true);
  const int64_t wide = 4 * tower.intermediate;
  build.weights.plain(Part::vision, layer_norm(width) + layer_norm(merged) + dense(merged, wide) +
                                        dense(wide, width));
  const int64_t times = outer.integer({"merger_times"}, 1, {1, 1 << 10});
  for (int64_t i = 0; i < times; ++i) {
    const int64_t out = i + 1 == times ? build.dims.hidden : width;
    build.weights.plain(Part::vision,
                        layer_norm(merged) + dense(merged, merged) + dense(merged, out));
  }
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// LFM2-VL: SigLIP 2 for images of any size, merged by squares.
void add_lfm2_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_tower.vision_model.encoder.layers", {12, 768, 12, 3072});
  const int64_t patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  tower.patch_inputs = config.integer({"num_channels"}, 3, kChannels) * patch * patch;
  tower.positions = config.integer({"num_patches"}, 256, {1, 1 << 24});
  tower.ends = norm_elements(tower);
  const int64_t feature = outer.integer({"vision_feature_layer"}, -1, {-10000, 10000});
  if (feature < -1) {
    tower.layers = std::max<int64_t>(0, tower.layers + feature + 1);
    tower.ends = 0;
  }
  add_tower(tower, build);
  const int64_t merge = outer.integer({"downsample_factor"}, 2, {1, 1 << 10});
  const int64_t merged = tower.hidden * merge * merge;
  if (outer.flag({"projector_use_layernorm"}, true)) {
    build.weights.plain(Part::vision, layer_norm(merged));
  }
  project_twice(build, merged, outer.integer({"projector_hidden_size"}, 2560, {1, 1 << 24}),
                outer.flag({"projector_bias"}, true));
  build.shape.vision.kind = VisionShape::Kind::other;
}

/// Molmo: a CLIP tower of plain modules, pooled by attention, and a gated projector.
void add_molmo_vision(const ConfigView& outer, const ConfigView&, Builder& build) {
  const Tower tower = clip_large("vision_backbone.image_vit.transformer.resblocks", 23, 336);
  add_tower(tower, build);
  constexpr int64_t kMarks = 128;  // rows of the embedding beside the vocabulary's
  build.weights.vocabulary(Part::embedding, kMarks, build.dims.hidden);
  const int64_t features = 2 * tower.hidden;  // of two layers
  build.weights.plain(Part::vision, 2 * features);
  for (const char* name : {"wq", "wk", "wv"}) {
    project(build, name, features, tower.hidden, Split::outputs, true);
  }
  project(build, "wo", tower.hidden, tower.hidden, Split::inputs, true);
  const int64_t wide = outer.integer({"intermediate_size"}, 37888, {2, 1 << 24}) / 2;
  build.weights.linear(Part::vision, {{"vision_backbone.image_projector", "merged_linear", {}},
                                      tower.hidden,
                                      {wide, wide},
                                      Split::outputs,
                                      false});
  project(build, "vision_backbone.image_projector.down_proj", wide, build.dims.hidden,
          Split::inputs, false);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::other;
}

/// Molmo 2: a SigLIP tower up to the last layer that is read, pooled by attention, and a gated
/// projector; rows of the embedding beside the vocabulary's.
void add_molmo2_vision(const ConfigView& outer, const ConfigView&, Builder& build) {
  const ConfigView config = outer.child({"vit_config"});
  Tower tower =
      read_tower(config, "vision_backbone.image_vit.transformer.resblocks", {27, 1152, 16, 4304});
  const ConfigView adapter = outer.child({"adapter_config"});
  std::vector<int64_t> read = adapter.integers({"vit_layers"});
  if (read.empty()) read = {-3, -9};
  int64_t last = 0;
  for (const int64_t layer : read) last = std::max(last, layer < 0 ? tower.layers + layer : layer);
  tower.layers = std::min(tower.layers, last + 1);
  const int64_t patch = config.integer({"image_patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = 3 * patch * patch;
  tower.positions = config.integer({"image_num_pos"}, 577, {1, 1 << 24});
  add_tower(tower, build);
  build.weights.vocabulary(Part::embedding,
                           build.config.integer({"additional_vocab_size"}, 128, {1, 1 << 20}),
                           build.dims.hidden);
  const int64_t features = tower.hidden * static_cast<int64_t>(read.size());
  const int64_t width = adapter.integer({"hidden_size"}, 1152, {1, 1 << 20});
  const int64_t size = adapter.integer({"head_dim"}, 72, {1, 1 << 16});
  const int64_t cached = size * adapter.integer({"num_key_value_heads"}, 16, {1, 1 << 16});
  const std::string pooling = "vision_backbone.image_pooling_2d";
  project(build, "vision_backbone.image_pooling_2d.q_proj", features, width, Split::outputs, true);
  build.weights.linear(Part::vision, {{pooling, "merged_kv", {"k_proj", "v_proj"}},
                                      features,
                                      {cached, cached},
                                      Split::outputs,
                                      true});
  project(build, "vision_backbone.image_pooling_2d.o_proj", width, width, Split::inputs, true);
  const int64_t wide = adapter.integer({"intermediate_size"}, 18944, {1, 1 << 24});
  build.weights.linear(Part::vision, {{"vision_backbone.image_projector", "merged_linear", {}},
                                      width,
                                      {wide, wide},
                                      Split::outputs,
                                      false});
  project(build, "vision_backbone.image_projector.down_proj", wide,
          adapter.integer({"text_hidden_size"}, build.dims.hidden, {1, 1 << 24}), Split::inputs,
          false);
  build.shape.vision.kind = VisionShape::Kind::other;
}

}  // namespace plimsoll::vllm
