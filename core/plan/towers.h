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

/// Towers of models outside vLLM. Returns false for an architecture that has none here.
bool add_rare_towers(const ConfigView& config, const std::string& architecture, Builder& build);

}  // namespace plimsoll::plan
