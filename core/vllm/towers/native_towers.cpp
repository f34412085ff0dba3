// Towers that were trained with their language model: MoonViT, Llama 4, Muse, Gemma 4.
#include <algorithm>
#include <cmath>

#include "vllm/towers/towers.h"

namespace plimsoll::vllm {

namespace {

/// Kimi's MoonViT; `chunks` of images, in the later models, or one by one.
void add_moon(const ConfigView& config, bool chunks, Builder& build) {
  Tower tower = read_tower(config, "vision_tower.encoder.blocks", {27, 1152, 16, 4304});
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
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, kernel.size() == 2 ? kernel[0] : 2);
  vision.merge = std::clamp<int64_t>(kernel.size() == 2 ? kernel[0] : 2, 1, 1 << 10);
  vision.temporal_patch = 1;
  vision.kind = VisionShape::Kind::patch_limit;
  // The processors' own limits, and the images that vLLM profiles with.
  vision.dummy_side = chunks ? 3000 : 1024;
  vision.patch_limit = chunks ? 16384 : 4096;
  if (chunks) vision.image_modality = "vision_chunk";
  vision.bytes_on_device = chunks;
}

}  // namespace

void add_moon_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_moon(config, true, build);
}

void add_kimi_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  add_moon(config, false, build);
}

void add_llama4_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_model.model.layers", {34, 768, 16, 5632});
  tower.quantized = false;  // vLLM hands neither tower nor projector the checkpoint's method
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
  const auto project_plain = [&](int64_t inputs, int64_t outputs, Split split, bool with_bias) {
    weights.linear(Part::vision,
                   {{"", "projector", {}}, inputs, {outputs}, split, with_bias, false});
  };
  project_plain(tower.intermediate, inner, Split::outputs, bias);
  project_plain(inner, outer, Split::inputs, bias);
  project_plain(config.integer({"vision_output_dim"}, 7680), build.dims.hidden, Split::outputs,
                false);
  VisionShape& vision = build.shape.vision;
  vision.kind = VisionShape::Kind::tiles;
  vision.image_size = image;
  vision.patch = patch;
  const double ratio = config.number({"pixel_shuffle_ratio"}, 0.5);
  const auto shrink = std::max<int64_t>(1, std::llround(1.0 / std::max(ratio * ratio, 1e-4)));
  vision.tokens_per_image = side * side / shrink;
  vision.rows_per_tile = tower.positions;
  vision.max_tiles = 16;
}

void add_muse_vision(const ConfigView& outer, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_encoder.transformer", {50, 1536, 16, 8960});
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
  VisionShape& vision = build.shape.vision;
  square_patches(vision, config, 14, 2);
  vision.merge = merge;
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.tokens_per_image = 4096;
  vision.image_size = 64 * patch * merge;
  vision.video = VisionShape::Video::pooled;
  vision.temporal_patch = 1;
  vision.tokens_per_frame = 144;  // of a group of frames
  vision.most_frames = 48;        // groups of frames
  vision.frame_rows = vision.tokens_per_frame * merge * merge;
}

namespace {

/// Gemma 4 pools squares of patches into at most so many tokens; vLLM profiles with images and
/// frames of 224 pixels a side, brought to the size that fills them best.
void note_gemma4_items(const ConfigView& config, int64_t patch, VisionShape& vision) {
  const int64_t pool = config.integer({"pooling_kernel_size"}, 3, {1, 1 << 10});
  const auto filled = [&](int64_t tokens) {
    constexpr double kSide = 224;
    const double patches = kSide / static_cast<double>(patch) * kSide / static_cast<double>(patch);
    const double scale = std::sqrt(static_cast<double>(tokens * pool * pool) / patches);
    const auto side = static_cast<int64_t>(kSide * scale / static_cast<double>(patch * pool));
    return side * side;
  };
  vision.kind = VisionShape::Kind::fixed_tokens;
  vision.patch = patch;
  vision.tokens_per_image =
      config.integer({"num_soft_tokens", "default_output_length"}, 280, {1, 1 << 20});
  vision.profiled_tokens = filled(vision.tokens_per_image);
  vision.rows_per_tile = vision.tokens_per_image * pool * pool;
  constexpr int64_t kFrameTokens = 70;
  constexpr int64_t kTimeTokens = 8;  // marks at both ends, and the time
  vision.video = VisionShape::Video::fixed;
  vision.most_frames = 32;
  vision.tokens_per_frame = kFrameTokens + kTimeTokens;
  vision.profiled_frame_tokens = filled(kFrameTokens);
  vision.frame_rows = kFrameTokens * pool * pool;
}

}  // namespace

void add_gemma4_vision(const ConfigView&, const ConfigView& config, Builder& build) {
  Tower tower = read_tower(config, "vision_tower.encoder.layers", {16, 768, 12, 3072});
  tower.head_size = config.integer({"head_dim"}, 64, {1, 1 << 16});
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
  note_gemma4_items(config, patch, build.shape.vision);
  build.shape.prefix_images = true;
}

/// Gemma 4 Unified has no encoder: patches and frames of sound are projected to the language
/// model's width (vLLM 0.32: models/gemma4_unified.py).
void add_gemma4_unified(const ConfigView& outer, const ConfigView& config, Builder& build) {
  constexpr Bounds kWidths{1, 1 << 20};
  const int64_t patch = config.integer({"patch_size"}, 16, {1, 1 << 16});
  const int64_t pool = config.integer({"pooling_kernel_size"}, 3, {1, 1 << 10});
  const int64_t side = config.integer({"model_patch_size"}, patch * pool, {1, 1 << 16});
  const int64_t inputs = 3 * side * side;
  const int64_t width = config.integer({"mm_embed_dim"}, 3840, kWidths);
  const int64_t places = config.integer({"mm_posemb_size"}, 1120, kWidths);
  const int64_t outputs = config.integer({"output_proj_dims"}, width, kWidths);
  RankWeights& weights = build.weights;
  weights.linear(Part::vision,
                 {{"vision_embedder", "patch_dense", {}}, inputs, {width}, Split::outputs, true});
  weights.plain(Part::vision, layer_norm(inputs) + layer_norm(width) * 2 +
                                  Amount{2} * places * width + Amount{outputs} * build.dims.hidden);
  if (outer.has_child({"audio_config"})) {
    const int64_t sound =
        outer.child({"audio_config"})
            .integer({"output_proj_dims", "hidden_size", "audio_embed_dim"}, 640, kWidths);
    weights.plain(Part::vision, Amount{sound} * build.dims.hidden);
  }
  VisionShape& vision = build.shape.vision;
  note_gemma4_items(config, patch, vision);
  vision.rows_per_tile = vision.tokens_per_image;  // a patch is a token
  vision.frame_rows /= pool * pool;
  vision.tower = {width, 0, false};
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

}  // namespace plimsoll::vllm
