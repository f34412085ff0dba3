// Gemma 3 (text): five windowed layers to one without, each kind with its own RoPE; q and k norms.
// RNJ-1: the same without windows.
#include <algorithm>

#include "model/decoder.h"
#include "model/families/dense/gemma.h"
#include "model/families/families.h"

namespace plimsoll::model {

ModelSpec make_gemma3(const ConfigReader& config) {
  Decoder decoder{.family = "gemma3"};
  read_gemma(config, decoder, {.flat_rope_is_idle = true},
             {.window_period = config.integer({"sliding_window_pattern", "_sliding_window_pattern"},
                                              6, {1, 4096})});
  decoder.qk_norm = true;
  decoder.vllm.has_normalizer = decoder.vllm.late_head = true;
  decoder.scales = ScalesPlace::at_end;
  decoder.attention_soft_cap = 0;  // transformers' Gemma3Attention does not read it
  const Sizes& sizes = decoder.sizes;
  decoder.ropes.front().context = sizes.max_position;  // stated with scaling applied
  decoder.ropes.push_back(read_local_rope(config, {.head_dim = sizes.head_dim,
                                                   .max_position = sizes.max_position,
                                                   .theta_key = "rope_local_base_freq",
                                                   .layer_type = "sliding_attention"}));
  return build(decoder);
}

ModelSpec make_rnj1(const ConfigReader& config) {
  Decoder decoder{.family = "rnj1"};
  read_gemma(config, decoder, {}, {.window_period = 1});
  const auto whole =
      read_layer_types(config, "layer_types", decoder.sizes.layers, "full_attention", "");
  if (whole && std::ranges::find(*whole, false) != whole->end()) {
    config.doubt("layer_types", "full_attention alone: no chunks with a look back");
  }
  decoder.windows.clear();
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  decoder.qk_norm = true;
  decoder.attention_soft_cap = 0;  // vLLM's class does not read it
  decoder.vllm.scalar_scale = true;
  return build(decoder);
}

}  // namespace plimsoll::model
