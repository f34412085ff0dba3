// Readers that Gemma's generations share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// Defaults in which Gemma 2 and 3 differ. A layer has no window when its 1-based number is a
/// multiple of the period.
struct GemmaDefaults {
  int64_t window_period = 2;
  double attention_soft_cap = 0;
  double final_soft_cap = 0;
};

/// The factor of embeddings: sqrt(hidden).
float embedding_scale(int64_t hidden);
/// The factor of embeddings, sqrt(hidden), rounded to bf16, for models that round it whatever their
/// compute dtype is.
float embedding_scale_bf16(int64_t hidden);

/// Norms before and after both branches, under Gemma 2's names.
void use_gemma_norms(Decoder& decoder);

/// Reads attention of Gemma 3n and 4: norms of q, k and v, no scale; logits capped at `soft_cap`
/// (0: not) where the config is silent.
void read_gemma_attention(const ConfigReader& config, Decoder& decoder, double soft_cap);

/// Lets the last `num_kv_shared_layers` layers read the keys and values of the last layer before
/// them with the same kind of window, in decoder.heads. Returns the first of these layers.
int64_t share_keys(const ConfigReader& config, Decoder& decoder);

/// Renames the layers that share keys, from `first` on: vLLM has them in a module of their own.
void name_cross_decoder(ModelSpec& spec, int64_t first);

void read_gemma(const ConfigReader& config, Decoder& decoder, CommonDefaults common,
                const GemmaDefaults& defaults);

}  // namespace plimsoll::model
