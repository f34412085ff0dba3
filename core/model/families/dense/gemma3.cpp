// Gemma 3 (text): five windowed layers to one without, each kind with its own RoPE; q and k norms.
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

}  // namespace plimsoll::model
