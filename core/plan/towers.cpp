// Vision towers and their projectors, as rows of one table: what vLLM builds beside the language
// model.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/towers.h"

namespace plimsoll::plan {
namespace {

constexpr Bounds kLayers{0, 10000};

int64_t norm_elements(const Tower& tower) {
  return tower.hidden * (tower.layer_norm ? 2 : 1);
}

void add_tower_layer(const Tower& tower, int64_t layer, RankWeights& weights) {
  const std::string path = tower.path + "." + std::to_string(layer);
  const int64_t size = tower.head_size > 0 ? tower.head_size : tower.hidden / tower.heads;
  const int64_t inner = size * tower.heads;
  const Split columns = tower.split_attention ? Split::outputs : Split::none;
  const Split rows = tower.split_attention ? Split::inputs : Split::none;
  if (tower.split_attention) {
    static_cast<void>(
        weights.share(tower.heads, "the number of the vision tower's attention heads"));
  }
  weights.linear(Part::vision, {{path + ".attn", "qkv", {"q_proj", "k_proj", "v_proj"}},
                                tower.hidden,
                                {inner, inner, inner},
                                columns,
                                tower.qkv_bias,
                                tower.quantized});
  weights.linear(
      Part::vision,
      {{path + ".attn", "proj", {}}, inner, {tower.hidden}, rows, tower.out_bias, tower.quantized});
  const Split up = tower.split_mlp ? Split::outputs : Split::none;
  const Split down = tower.split_mlp ? Split::inputs : Split::none;
  std::vector<int64_t> widths(tower.gated ? 2 : 1, tower.intermediate);
  weights.linear(
      Part::vision,
      {{path + ".mlp", "fc1", {}}, tower.hidden, widths, up, tower.mlp_bias, tower.quantized});
  weights.linear(Part::vision, {{path + ".mlp", "fc2", {}},
                                tower.intermediate,
                                {tower.hidden},
                                down,
                                tower.mlp_bias,
                                tower.quantized});
  weights.plain(Part::vision, Amount{tower.norms} * norm_elements(tower) + tower.layer_extras);
}

}  // namespace

void add_tower(Tower tower, Builder& build) {
  RankWeights& weights = build.weights;
  if (tower.whole_if_uneven && tower.heads % weights.ranks() != 0) {
    tower.split_attention = tower.split_mlp = false;
  }
  weights.plain(Part::vision, Amount{tower.patch_inputs} * tower.hidden +
                                  (tower.patch_bias ? tower.hidden : 0) +
                                  Amount{tower.positions} * tower.hidden + tower.ends);
  for (int64_t layer = 0; layer < tower.layers; ++layer) add_tower_layer(tower, layer, weights);
  VisionShape& vision = build.shape.vision;
  vision.hidden = tower.hidden;
  vision.layers = tower.layers;
  vision.intermediate = tower.intermediate;
}

namespace {

/// One projection of a projector, named as its module is.
void project(Builder& build, const char* name, int64_t inputs, int64_t outputs, Split split,
             bool bias) {
  build.weights.linear(Part::vision, {{"", name, {}}, inputs, {outputs}, split, bias});
}

void square_patches(VisionShape& vision, const ConfigView& config, int64_t patch, int64_t merge) {
  vision.kind = VisionShape::Kind::patches;
  vision.patch = config.integer({"patch_size"}, patch, {1, 1 << 16});
  vision.merge = config.integer({"spatial_merge_size"}, merge, {1, 1 << 10});
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 1, {1, 1 << 10});
}

/// Qwen2-VL and Qwen2.5-VL.
void add_qwen_vision(const ConfigView& config, Builder& build, bool gated) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  vision.video = true;
  vision.default_min_pixels = 56 * 56;
  vision.default_max_pixels = int64_t{28} * 28 * 16384;
  const int64_t channels = config.integer({"in_channels", "in_chans"}, 3);
  Tower tower;
  tower.path = "visual.blocks";
  tower.layers = config.integer({"depth"}, 32, kLayers);
  tower.hidden = config.integer({gated ? "hidden_size" : "embed_dim"}, 1280, {1, 1 << 20});
  tower.heads = config.integer({"num_heads"}, 16, {1, 1 << 16});
  const int64_t ratio = config.integer({"mlp_ratio"}, 4);
  tower.intermediate = gated ? config.integer({"intermediate_size"}, 3420) : ratio * tower.hidden;
  tower.gated = gated;
  tower.layer_norm = !gated;
  tower.patch_inputs = channels * vision.temporal_patch * vision.patch * vision.patch;
  tower.patch_bias = false;
  tower.ends = norm_elements(tower);  // of the merger
  add_tower(tower, build);
  const int64_t merged = tower.hidden * vision.merge * vision.merge;
  const int64_t out =
      config.integer({gated ? "out_hidden_size" : "hidden_size"}, build.dims.hidden);
  project(build, "visual.merger.mlp.0", merged, merged, Split::outputs, true);
  project(build, "visual.merger.mlp.2", merged, out, Split::inputs, true);
  constexpr int64_t kRotaryPositions = 8192;
  build.weights.buffer(Amount{kRotaryPositions} * (tower.hidden / tower.heads / 2) *
                       build.options.element);
}

/// Qwen3-VL and Qwen3.5: learned positions, and mergers of deeper layers.
void add_qwen3_vision(const ConfigView& config, Builder& build) {
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 16, 2);
  vision.temporal_patch = config.integer({"temporal_patch_size"}, 2, {1, 1 << 10});
  vision.video = true;
  vision.default_min_pixels = 65536;
  vision.default_max_pixels = 16777216;
  Tower tower;
  tower.path = "visual.blocks";
  tower.layers = config.integer({"depth"}, 27, kLayers);
  tower.hidden = config.integer({"hidden_size"}, 1152, {1, 1 << 20});
  tower.heads = config.integer({"num_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 4304);
  tower.patch_inputs =
      config.integer({"in_channels"}, 3) * vision.temporal_patch * vision.patch * vision.patch;
  tower.positions = config.integer({"num_position_embeddings"}, 2304);
  add_tower(tower, build);
  const int64_t merged = tower.hidden * vision.merge * vision.merge;
  const int64_t out = config.integer({"out_hidden_size"}, build.dims.hidden);
  const bool listed = config.has("deepstack_visual_indexes");
  constexpr int64_t kDeepMergers = 3;  // of Qwen3-VL, when the config does not list them
  const bool has_them = build.shape.architecture.starts_with("Qwen3VL");
  const int64_t deep =
      listed ? static_cast<int64_t>(config.integers({"deepstack_visual_indexes"}).size())
             : (has_them ? kDeepMergers : 0);
  for (int64_t i = 0; i <= deep; ++i) {
    build.weights.plain(Part::vision, 2 * (i == 0 ? tower.hidden : merged));
    project(build, "visual.merger.linear_fc1", merged, merged, Split::outputs, true);
    project(build, "visual.merger.linear_fc2", merged, out, Split::inputs, true);
  }
  constexpr int64_t kRotaryPositions = 8192;
  build.weights.buffer(Amount{kRotaryPositions} * (tower.hidden / tower.heads / 2) *
                       build.options.element);
}

/// SigLIP and CLIP towers.
Tower siglip_tower(const ConfigView& config, const char* path) {
  Tower tower;
  tower.path = path;
  tower.layers = config.integer({"num_hidden_layers"}, 12, kLayers);
  tower.hidden = config.integer({"hidden_size"}, 768, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 12, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 3072);
  const int64_t patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  const int64_t side = config.integer({"image_size"}, 224, {1, 1 << 20}) / patch;
  tower.patch_inputs = config.integer({"num_channels"}, 3) * patch * patch;
  tower.positions = side * side;
  tower.ends = norm_elements(tower);
  return tower;
}

constexpr int64_t kPositionId = 8;  // int64

void add_gemma3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionId);
  build.weights.plain(Part::vision, Amount{tower.hidden} * build.dims.hidden + tower.hidden);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 896, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = outer.integer({"mm_tokens_per_image"}, 256);
  build.shape.prefix_images = true;
}

void add_idefics3_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = siglip_tower(config, "model.vision_model.encoder.layers");
  add_tower(tower, build);
  const int64_t scale = outer.integer({"scale_factor"}, 2, {1, 1 << 10});
  project(build, "model.connector.proj", tower.hidden * scale * scale, build.dims.hidden,
          Split::none, false);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 512, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  vision.tokens_per_image = tower.positions / (scale * scale);
}

/// LLaVA: a CLIP or SigLIP tower and two projections.
void add_llava_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  const bool clip = config.text({"model_type"}, "").find("clip_vision") == 0;
  Tower tower = siglip_tower(config, "vision_tower.vision_model.encoder.layers");
  const int64_t feature = outer.integers({"vision_feature_layer"}).empty()
                              ? -1
                              : outer.integers({"vision_feature_layer"}).front();
  if (feature < -1) tower.layers = std::max<int64_t>(0, tower.layers + feature + 1);
  if (clip) {
    tower.patch_bias = false;
    tower.positions += 1;
    tower.ends = tower.hidden + norm_elements(tower);  // class token, first norm
  }
  add_tower(tower, build);
  build.weights.buffer(Amount{tower.positions} * kPositionId);
  const bool bias = outer.flag({"multimodal_projector_bias"}, true);
  project(build, "multi_modal_projector.linear_1", tower.hidden, build.dims.hidden, Split::outputs,
          bias);
  project(build, "multi_modal_projector.linear_2", build.dims.hidden, build.dims.hidden,
          Split::inputs, bias);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.image_size = config.integer({"image_size"}, 336, {1, 1 << 20});
  vision.patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  vision.tokens_per_image = clip ? tower.positions - 1 : tower.positions;
}

void add_pixtral_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_tower.transformer.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 24, kLayers);
  tower.hidden = config.integer({"hidden_size"}, 1024, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 4096);
  tower.gated = true;
  tower.layer_norm = false;
  tower.qkv_bias = tower.out_bias = tower.mlp_bias = false;
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  tower.patch_inputs = config.integer({"num_channels"}, 3) * patch * patch;
  tower.patch_bias = false;
  tower.ends = tower.hidden;
  add_tower(tower, build);
  // Frequencies of the rotary embedding, kept twice in float32.
  build.weights.buffer(Amount{2} * (tower.hidden / tower.heads / 2) * 4);
  const int64_t merge = outer.integer({"spatial_merge_size"}, 2, {1, 1 << 10});
  const bool bias = outer.flag({"multimodal_projector_bias"}, false);
  build.weights.plain(Part::vision, tower.hidden);
  project(build, "multi_modal_projector.patch_merger", tower.hidden * merge * merge, tower.hidden,
          Split::none, false);
  project(build, "multi_modal_projector.linear_1", tower.hidden, build.dims.hidden, Split::outputs,
          bias);
  project(build, "multi_modal_projector.linear_2", build.dims.hidden, build.dims.hidden,
          Split::inputs, bias);
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, patch, merge);
  vision.merge = merge;
  const int64_t side = config.integer({"image_size"}, 1540, {1, 1 << 20});
  vision.default_min_pixels = 1;
  vision.default_max_pixels = side * side;
}

void add_intern_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_model.encoder.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 24, kLayers);
  tower.hidden = config.integer({"hidden_size"}, 1024, {1, 1 << 20});
  tower.heads = config.integer({"num_attention_heads"}, 16, {1, 1 << 16});
  tower.intermediate = config.integer({"intermediate_size"}, 4096);
  tower.layer_norm = config.text({"norm_type"}, "layer_norm") == "layer_norm";
  tower.qkv_bias = config.flag({"qkv_bias"}, true);
  tower.layer_extras = 2 * tower.hidden;
  if (config.flag({"qk_normalization"}, false)) tower.layer_extras += 2 * tower.hidden;
  const int64_t patch = config.integer({"patch_size"}, 14, {1, 1 << 16});
  const int64_t image = outer.integer(
      {"force_image_size"}, config.integer({"image_size"}, 448, {1, 1 << 20}), {1, 1 << 20});
  const int64_t side = config.integer({"image_size"}, image, {1, 1 << 20}) / patch;
  tower.patch_inputs = 3 * patch * patch;
  tower.positions = side * side + 1;
  tower.ends = tower.hidden;  // class token
  const int64_t feature =
      outer.integers({"select_layer"}).empty() ? -1 : outer.integers({"select_layer"}).front();
  if (feature < -1) tower.layers = std::max<int64_t>(0, tower.layers + feature + 1);
  add_tower(tower, build);
  const double ratio = outer.number({"downsample_ratio"}, 0.5);
  const auto merge = static_cast<int64_t>(std::llround(1.0 / std::max(ratio, 0.01)));
  const int64_t merged = tower.hidden * merge * merge;
  build.weights.plain(Part::vision, 2 * merged);
  project(build, "mlp1.1", merged, build.dims.hidden, Split::none, true);
  project(build, "mlp1.3", build.dims.hidden, build.dims.hidden, Split::none, true);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = image;
  vision.patch = patch;
  vision.tokens_per_image = side * side / (merge * merge);
  vision.max_tiles = outer.integer({"max_dynamic_patch"}, 12, {1, 1 << 10});
  vision.video = true;
}

/// Kimi's MoonViT.
void add_moon_vision(const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_tower.encoder.blocks";
  tower.layers = config.integer({"vt_num_hidden_layers", "num_hidden_layers"}, 27, kLayers);
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

void add_llama4_vision(const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_model.model.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 34, kLayers);
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
  tower.layers = config.integer({"num_hidden_layers"}, 50, kLayers);
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

void add_gemma4_vision(const ConfigView& config, Builder& build) {
  Tower tower;
  tower.path = "vision_tower.encoder.layers";
  tower.layers = config.integer({"num_hidden_layers"}, 16, kLayers);
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

struct TowerRow {
  const char* architecture;
  void (*add)(const ConfigView& outer, const ConfigView& vision, Builder& build);
};

constexpr auto kTowers = std::to_array<TowerRow>({
    {"Qwen2VLForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_qwen_vision(v, b, false); }},
    {"Qwen2_5_VLForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_qwen_vision(v, b, true); }},
    {"Qwen3VLForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_qwen3_vision(v, b); }},
    {"Qwen3VLMoeForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_qwen3_vision(v, b); }},
    {"Qwen3_5ForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_qwen3_vision(v, b); }},
    {"Qwen3_5MoeForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_qwen3_vision(v, b); }},
    {"Gemma3ForConditionalGeneration", add_gemma3_vision},
    {"Gemma4ForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_gemma4_vision(v, b); }},
    {"Mistral3ForConditionalGeneration", add_pixtral_vision},
    {"InternVLChatModel", add_intern_vision},
    {"Idefics3ForConditionalGeneration", add_idefics3_vision},
    {"SmolVLMForConditionalGeneration", add_idefics3_vision},
    {"LlavaForConditionalGeneration", add_llava_vision},
    {"LlavaNextForConditionalGeneration", add_llava_vision},
    {"KimiK25ForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_moon_vision(v, b); }},
    {"KimiK3ForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_moon_vision(v, b); }},
    {"Llama4ForConditionalGeneration",
     [](const ConfigView&, const ConfigView& v, Builder& b) { add_llama4_vision(v, b); }},
    {"MuseGlimmerForConditionalGeneration", add_muse_vision},
});

}  // namespace

bool add_towers(const ConfigView& config, const std::string& architecture, Builder& build) {
  const auto row = std::find_if(kTowers.begin(), kTowers.end(), [&](const TowerRow& tower) {
    return architecture == tower.architecture;
  });
  if (row == kTowers.end()) return add_rare_towers(config, architecture, build);
  // Mistral's wrapper serves language models without a tower too.
  if (architecture == "Mistral3ForConditionalGeneration" && !config.has_child({"vision_config"}))
    return false;
  row->add(config, config.child({"vision_config"}), build);
  return true;
}

}  // namespace plimsoll::plan
