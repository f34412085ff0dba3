// A vision transformer as a row of numbers.
#pragma once

#include <string>

#include "model/families/family.h"
#include "model/towers/towers.h"
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {

/// Names of a layer's modules in vLLM's class, which lists of unquantized modules name one by one.
struct TowerModules {
  std::string attention = "attn";
  std::string qkv = "qkv";  // q_proj, k_proj and v_proj, where a checkpoint has them apart
  std::string out = "proj";
  std::string mlp = "mlp";
  std::string up{};  // empty: fc1 and fc2, or gate_up_proj and down_proj where the MLP is gated
  std::string down{};
};

/// A vision transformer's layers and ends.
struct Tower {
  std::string path;  // before "layers.N"
  TowerModules modules{};
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 1;
  int64_t kv_heads = 0;   // 0: as heads
  int64_t head_size = 0;  // 0: hidden / heads
  int64_t intermediate = 0;
  bool gated = false;
  bool layer_norm = true;  // with bias; false: RMS, gain alone
  int64_t norms = 2;       // per layer
  bool qkv_bias = true;
  bool out_bias = true;
  bool mlp_bias = true;
  bool split_attention = true;  // over ranks; false: whole on every rank
  bool split_mlp = true;
  /// The whole tower is on every rank where ranks do not divide its heads.
  bool whole_if_uneven = false;
  /// True when the attention alone is on every rank where ranks do not divide its heads.
  bool whole_attention_if_uneven = false;
  bool quantized = true;     // false: kept plain whatever the checkpoint's method
  int64_t layer_extras = 0;  // elements per layer beside these (layer scale)
  int64_t patch_inputs = 0;  // channels x frames x side x side
  bool patch_bias = true;
  int64_t positions = 0;  // rows of the learned table
  int64_t ends = 0;       // elements of class tokens and norms at both ends
  /// CLIP's and SigLIP's encoder, whose weights core/model describes: layers, positions and whether
  /// there is an end are taken from above.
  std::optional<model::ImageEncoder> encoder = {};
  model::VisionSizes sizes = {};
};

/// Defaults of a config's class for a tower.
struct TowerSizes {
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t intermediate = 0;
};

/// A tower of the sizes that its config states under their usual names.
Tower read_tower(const ConfigView& config, const char* path, const TowerSizes& usual);

using model::Modalities;

/// True when one of a tower's modalities may be asked for; else the tower is not built.
bool wanted(const Builder& build, Modalities modalities);

/// Counts a tower's parameters into Part::vision, and notes its sizes for activations.
void add_tower(Tower tower, Builder& build);

/// Elements of one norm of the tower.
int64_t norm_elements(const Tower& tower);

/// One projection of a projector, named as its module is.
void project(Builder& build, const char* name, int64_t inputs, int64_t outputs, Split split,
             bool bias);

/// Adds Ovis's head: the outputs of a tower of `hidden`, squares of `stride` together, become a
/// mixture of `words` learned visual words, `marks` of which stand for begin, end and separators.
void add_visual_words(Builder& build, int64_t hidden, int64_t stride, int64_t words, int64_t marks);

/// Two plain projections to the language model's width, whole on every rank.
void project_twice(Builder& build, int64_t inputs, int64_t between, bool bias);

/// Elements of a projection with bias, and of a norm with bias.
constexpr Amount dense(int64_t inputs, int64_t outputs) {
  return (Amount{inputs} + 1) * outputs;
}
constexpr Amount layer_norm(int64_t width) {
  return Amount{width} * 2;
}

/// The first number of a list, or the number itself; at least 1.
int64_t first_of(const ConfigView& config, const char* key, int64_t fallback);

/// Reads patch size and merge of a tower that takes images of any size.
void square_patches(VisionShape& vision, const ConfigView& config, int64_t patch, int64_t merge);

/// Sizes to which LLaVA's kin scale images, height and width; whole tiles.
std::vector<std::pair<int64_t, int64_t>> read_pinpoints(const ConfigView& outer,
                                                        const VisionShape& vision);

/// Reads videos as frames of pooled tokens, at most `most` (0: what the context holds).
void pool_frames(VisionShape& vision, const ConfigView& outer, int64_t most);

/// A SigLIP or CLIP tower, as its vision_config says.
Tower siglip_tower(const ConfigView& config, const char* path,
                   model::ImageEncoder kind = model::ImageEncoder::siglip);

/// SigLIP's so400m, in whole or but for its last layers: 1,152 wide, squares of 14 x 14 pixels.
Tower so400m(const char* path, int64_t layers, int64_t positions);

/// CLIP-L with patches of 14, where no config spells it out: `layers` of its 24 for images of
/// `image` pixels a side.
Tower clip_large(const char* path, int64_t layers, int64_t image);

inline constexpr Bounds kTowerLayers{0, 10000};
inline constexpr Bounds kChannels{1, 1 << 10};
inline constexpr int64_t kPositionIdBytes = 8;  // int64

/// A family's tower and projector: `outer` is the whole config, `vision` its vision_config.
using AddTower = void(const ConfigView& outer, const ConfigView& vision, Builder& build);
AddTower add_qwen2_vision, add_qwen2_5_vision, add_qwen3_vision, add_qwen3_5_vision;
AddTower add_gemma3_vision, add_idefics3_vision, add_llava_vision, add_pixtral_vision;
AddTower add_mistral_vision;
AddTower add_llava_onevision, add_paligemma_vision, add_cohere_vision, add_intern_hf_vision;
AddTower add_glm_vision, add_glm_next_vision, add_qwen_audio, add_qwen_omni;
AddTower add_intern_vision, add_moon_vision, add_llama4_vision, add_muse_vision, add_gemma4_vision;
AddTower add_gemma4_unified;
AddTower add_gemma3n_towers, add_eagle_vision, add_paddle_vision, add_keye_vision, add_dots_vision;
AddTower add_blip2_vision, add_aria_vision, add_minicpm_vision, add_molmo_vision;
AddTower add_audio_flamingo, add_qwen3_asr, add_qwen3_omni, add_glm_asr, add_ultravox;
AddTower add_granite_speech, add_glm_ocr_vision, add_phi3_vision, add_ovis_vision, add_glm4v_vision;
AddTower add_minicpm46_vision, add_lfm2_vision, add_deepseek_ocr, add_deepseek_ocr2;
AddTower add_deepseek_vl2, add_minicpm_omni, add_molmo2_vision, add_ernie_vision;
AddTower add_nemotron_vision, add_nemotron_hybrid_vision;
AddTower add_minimax_vision, add_nvlm_vision, add_h2o_vision, add_skywork_vision;
AddTower add_llava_next_vision, add_llava_video_vision, add_kimi_vision, add_keye15_vision;
AddTower add_step3_vision, add_perception_vision, add_bee_vision, add_rvl_vision, add_isaac_vision;
AddTower add_bagel_vision, add_hyperclova_vision;
AddTower add_ovis25_vision, add_phi4_senses, add_voxtral, add_whisper_encoder;
/// Towers of models that vLLM does not run, counted from their published parts.
AddTower add_llama3v, add_locate_anything, add_logics, add_xgen;

/// Norm and two projections between InternViT's kin and the language model.
void add_mlp1(Builder& build, int64_t merged, int64_t between, bool bias);

/// Patches on a side that one token of InternViT's kin merges.
int64_t merged_side(const ConfigView& outer);

/// InternVL's processor: tiles of one size, as many as the config allows, and a thumbnail.
void read_tiles(VisionShape& vision, const ConfigView& outer, int64_t image, int64_t patch);

/// Elements of BLIP-2's reader of a tower's tokens, whole on every rank.
Amount qformer_elements(const ConfigView& config, int64_t encoder_hidden);

}  // namespace plimsoll::vllm
