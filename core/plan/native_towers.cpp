// Towers that were trained with their language model: MoonViT, Llama 4, Muse, Gemma 4.
#include <algorithm>
#include <cmath>

#include "plan/towers.h"

namespace plimsoll::plan {

/// Kimi's MoonViT.
void add_moon_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_tower.encoder.blocks";
  tower.layers = config.integer({"vt_num_hidden_layers", "num_hidden_layers"}, 27, kTowerLayers);
  tower.hidden = config.integer({"vt_hidden_size", "hidden_size"}, 1152, {1, 1 << 20});
  tower.heads = config.integer({"vt_num_attention_heads", "num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"vt_intermediate_size", "intermediate_size"}, 4304);
  const int64_t inner = config.integer({"qkv_hidden_size"}, tower.hidden);
  tower.head_size = inner / tower.heads;
  tower.layer_norm = config.text({"norm_type"}, "layernorm") != "rmsnorm";
  tower.qkv_bias = tower.out_bias = config.flag({"attn_bias"}, true);
  tower.mlp_bias = config.flag({"linear_bias"}, true);
  tower.patch_bias = config.flag({"patch_embed_proj_bias"}, true);
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = 3 * patch * patch;
  tower.positions =
      config.integer({"init_pos_emb_height"}, 64) * config.integer({"init_pos_emb_width"}, 64);
  tower.ends = norm_elements(tower);
  tower.quantized = false;
  tower.whole_if_uneven = true;
  add_tower(tower, build);
  const int64_t frames = config.integer({"init_pos_emb_time"}, 0, {0, 1 << 20});
  const std::string& method = build.weights.quantization().method();
  const bool modelopt = method.starts_with("modelopt") || method == "mxfp4";
  build.weights.buffer(Amount{frames} * tower.hidden * (modelopt ? 4 : build.options.element));
  const std::vector<int64_t> kernel = config.integers({"merge_kernel_size"});
  const int64_t merge = kernel.size() == 2 ? kernel[0] * kernel[1] : 4;
  const int64_t merged = tower.hidden * merge;
  const bool second = config.text({"mm_projector_type"}, "") == "patchmergerv2";
  build.weights.plain(Part::vision, second ? 0 : norm_elements(tower));
  const int64_t biases = second ? 0 : merged + build.dims.hidden;
  build.weights.plain(Part::vision,
                      Amount{merged} * merged + Amount{merged} * build.dims.hidden + biases);
  if (second) build.weights.plain(Part::vision, build.dims.hidden);
  build.shape.vision.kind = VisionShape::Kind::other;
}

void add_llama4_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_model.model.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 34, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 768, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 5632);
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t image = config.integer({"image_size"}, 448, {1, 1 << 20});
  const int64_t side = image / patch;
  RankWeights& weights = build.weights;
  weights.linear(Part::vision, {{"vision_model", "patch_embedding", {}},
                                3 * patch * patch,
                                {tower.hidden},
                                Split::outputs,
                                false,
                                false});
  tower.patch_bias = false;
  tower.positions = side * side + 1;
  tower.ends = tower.hidden + 2 * norm_elements(tower);
  add_tower(tower, build);
  constexpr int64_t kComplex = 8;
  weights.buffer(Amount{tower.positions} * (tower.hidden / tower.heads / 2) * kComplex);
  const int64_t inner = config.integer({"projector_input_dim"}, 4096);
  const int64_t outer = config.integer({"projector_output_dim"}, 4096);
  const bool bias = config.flag({"multi_modal_projector_bias"}, false);
  project(build, "vision_model.vision_adapter.mlp.fc1", tower.intermediate, inner, Split::outputs,
          bias);
  project(build, "vision_model.vision_adapter.mlp.fc2", inner, outer, Split::inputs, bias);
  project(build, "multi_modal_projector.linear_1", config.integer({"vision_output_dim"}, 7680),
          build.dims.hidden, Split::outputs, false);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = image;
  vision.patch = patch;
  vision.tokens_per_image = side * side / 4;
  vision.max_tiles = 16;
}

void add_muse_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_encoder.transformer";
  tower.layers = config.integer({"num_hidden_layers"}, 50, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 1536, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 8960);
  tower.split_mlp = false;
  tower.whole_if_uneven = true;
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = 3 * patch * patch * config.integer({"patch_temporal"}, 2);
  tower.patch_bias = false;
  tower.positions = config.integer({"pos_emb_height"}, 32) * config.integer({"pos_emb_width"}, 32);
  tower.ends = 2 * norm_elements(tower);
  add_tower(tower, build);
  const int64_t merge = config.integer({"merge_size"}, 2, {1, 1 << 10});
  const int64_t merged = config.integer(
      {"output_dim"}, outer.integer({"out_hidden_size"}, tower.hidden * merge * merge));
  const int64_t adapter =
      config.integer({"adapter_dim"}, outer.integer({"projector_hidden_size"}, 4096));
  build.weights.plain(Part::vision, Amount{merged} * adapter + Amount{adapter} * adapter +
                                        Amount{adapter} * build.dims.hidden);
  build.shape.vision.kind = VisionShape::Kind::other;
}

void add_gemma4_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_tower.encoder.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 16, kTowerLayers);
  tower.hidden = config.integer({"hidden_size"}, 768, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 12, {1, 1 << 16});
  tower.head_size = config.integer({"head_dim"}, 64, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 3072);
  tower.gated = true;
  tower.layer_norm = false;
  tower.norms = 4;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = false;
  tower.split_attention = tower.split_mlp = false;
  tower.layer_extras = 2 * tower.head_size;
  const int64_t patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  tower.patch_inputs = 3 * patch * patch;
  tower.patch_bias = false;
  tower.positions = 2 * config.integer({"position_embedding_size"}, 10240);
  add_tower(tower, build);
  build.weights.plain(Part::vision, Amount{tower.hidden} * build.dims.hidden);
  RankWeights& weights = build.weights;
  if (config.flag({"standardize"}, false))
    weights.buffer(Amount{2} * tower.hidden * build.options.element);
  weights.buffer(Amount{2} * (tower.head_size / 4) * 4);  // rotary frequencies, twice, float32
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::other;
  build.shape.prefix_images = true;
}

/// Gemma 3n's MobileNet and its sound encoder come in one size, which no config spells out: what
/// the published checkpoints of both language models (5,439,438,272 and 7,849,978,192 elements)
/// hold beside them.
void add_gemma3n_towers(const ConfigView&, const ConfigView&, Builder& build) {
  constexpr int64_t kEyesAndEars = 983281504;
  build.weights.plain(Part::vision, kEyesAndEars);
  build.shape.vision.kind = VisionShape::Kind::other;
  build.shape.note =
      "the encoders of images and sound are taken at their published size (983,281,504 elements)";
}

}  // namespace plimsoll::plan
