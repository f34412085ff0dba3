// A vision transformer as a row of numbers.
#pragma once

#include <string>

#include "plan/builder.h"

namespace plimsoll::plan {

/// A vision transformer's layers and ends.
struct Tower {
  std::string path;  // before "layers.N"
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 1;
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
  bool whole_if_uneven = false;  // held whole where the heads do not divide
  bool quantized = true;         // false: kept plain whatever the checkpoint's method
  int64_t layer_extras = 0;      // elements per layer beside these (layer scale)
  int64_t patch_inputs = 0;      // channels x frames x side x side
  bool patch_bias = true;
  int64_t positions = 0;  // rows of the learned table
  int64_t ends = 0;       // elements of class tokens and norms at both ends
};

/// Counts a tower's parameters into Part::vision.
void add_tower(Tower tower, Builder& build);

/// Elements of one norm of the tower.
int64_t norm_elements(const Tower& tower);

/// One projection of a projector, named as its module is.
void project(Builder& build, const char* name, int64_t inputs, int64_t outputs, Split split,
             bool bias);

/// Reads patch size and merge of a tower that takes images of any size.
void square_patches(VisionShape& vision, const ConfigView& config, int64_t patch, int64_t merge);

/// A SigLIP or CLIP tower, as its vision_config says.
Tower siglip_tower(const ConfigView& config, const char* path);

inline constexpr Bounds kTowerLayers{0, 10000};
inline constexpr Bounds kChannels{1, 1 << 10};
inline constexpr int64_t kPositionIdBytes = 8;  // int64

/// A family's tower and projector: `outer` is the whole config, `vision` its vision_config.
using AddTower = void(const ConfigView& outer, const ConfigView& vision, Builder& build);
AddTower add_qwen2_vision, add_qwen2_5_vision, add_qwen3_vision;
AddTower add_gemma3_vision, add_idefics3_vision, add_llava_vision, add_pixtral_vision;
AddTower add_llava_onevision, add_paligemma_vision, add_cohere_vision, add_intern_hf_vision;
AddTower add_glm_vision, add_qwen_audio, add_qwen_omni;
AddTower add_intern_vision, add_moon_vision, add_llama4_vision, add_muse_vision, add_gemma4_vision;
AddTower add_gemma3n_towers;

bool is_rare_tower(const std::string& architecture);

/// Towers of models outside vLLM. Returns false for an architecture that has none here.
bool add_rare_towers(const ConfigView& config, const std::string& architecture, Builder& build);

}  // namespace plimsoll::plan
