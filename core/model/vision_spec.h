// How a multimodal model turns an image's values into embeddings: an image encoder and a projector
// over the weights in ModelSpec::towers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/model_spec.h"

namespace plimsoll::model {

struct VisionLayer {
  Norm attention_norm{}, mlp_norm{};
  Linear qkv{}, out{};                   // [3 * hidden, hidden]: q, k, v; [hidden, hidden]
  Norm q_norm{}, k_norm{};               // over all heads together
  WeightId attention_scale = kNoWeight;  // [hidden]: factor of the attention's output
  WeightId mlp_scale = kNoWeight;
  MlpSpec mlp{};
  bool windowed = false;  // sees only its window, not the whole image
};

/// RoPE of images: rows and columns each turn half of a head (Su et al. 2024, in two dimensions).
RopeSpec image_rope(int64_t head_dim);

/// Image processor of a model (image::ProcessorKind, which knows their rules).
enum class VisionKind : uint8_t { qwen2_vl, gemma3, clip, siglip, idefics3, internvl };

/// Keys of mm_processor_kwargs below which settings for images alone, and for videos alone,
/// stand.
inline constexpr const char* kImageScope = "images_kwargs";
inline constexpr const char* kVideoScope = "videos_kwargs";

/// How merge x merge neighbouring patches become one row.
enum class Merging : uint8_t {
  concatenated,  // one row of all their values, row by row of the block
  averaged,
};

struct VisionSpec {
  VisionKind kind = VisionKind::clip;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t patch = 14;  // pixels of a side
  int64_t image = 0;   // pixels of a square's side; 0: images of any size
  int64_t merge = 1;
  Merging merging = Merging::concatenated;
  int64_t window = 0;            // merged units of a window's side
  std::optional<RopeSpec> rope;  // its kinds of positions: rows, columns

  Linear patches{};                  // [hidden, values of a patch]
  WeightId class_token = kNoWeight;  // [hidden], a row before the patches
  int64_t first_row = 0;             // of the encoder's rows: those before it become no tokens
  WeightId positions = kNoWeight;    // [rows, hidden]
  Norm input_norm{}, output_norm{};
  std::vector<VisionLayer> layers;
  /// Numbers of layers (0: none) after which rows are projected, side by side; empty: after all.
  std::vector<int64_t> features;

  // Tokens of prompts; -1 where the config names none (InternVL: the tokenizer does).
  int32_t image_token = -1;  // stands for an embedding
  int32_t video_token = -1;
  int32_t begin_token = -1, end_token = -1;  // around an image's embeddings (Gemma 3)
  /// Positions that a second of video takes; 0: a pair of frames takes one.
  double positions_per_second = 0;

  // The projector: norm, first, activation, second.
  Norm merged_norm{};
  bool norm_before_merging = false;
  Linear first{}, second{};  // no second: no activation either
  Activation activation = Activation::gelu;
  bool first_is_stored_transposed = false;

  /// True when an image's tokens see each other both ways in the text model.
  [[nodiscard]] bool two_way() const { return kind == VisionKind::gemma3; }
  /// The attention of a layer.
  [[nodiscard]] AttentionSpec attention(const VisionLayer& layer) const;
};

}  // namespace plimsoll::model
