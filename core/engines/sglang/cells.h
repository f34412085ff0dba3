// Bytes of the KV cache for a token, and of recurrent states for a request, on one rank.
#pragma once

#include <cstdint>
#include <optional>

#include "engines/model_config.h"
#include "engines/sglang/launch.h"

namespace plimsoll::engines::sglang {

struct Cells {
  /// Bytes of a token over all layers; with two pools a share of the window layers is in it.
  double token_bytes = 0;
  bool is_whole = true;  // token_bytes is an integer
  double key_share = 0;  // of token_bytes; 1: one latent for both
  int64_t kv_layers = 0;
  int64_t full_layer_bytes = 0, window_layer_bytes = 0;  // with two pools, of a token in a layer
  int64_t state_layers = 0;
  int64_t state_bytes = 0;  // of a request
};

/// Throws Error(checkpoint_unusable).
Cells cells_of(const Launch& launch, const ModelConfig& config);

/// Bytes of DeepSeek-V4's pools: several compressed forms of a token beside the window.
struct CompressedCells {
  double token_bytes = 0;      // of a full token, with its share of the window's pool
  int64_t fixed_bytes = 0;     // of states, for each running request
  int64_t state_rows = 8;      // of layers of ratio 4, for 256 tokens of the window
  int64_t request_rows = 128;  // of layers of ratio 128, for a request
};
CompressedCells compressed_cells(const Launch& launch, const ModelConfig& config);

}  // namespace plimsoll::engines::sglang
