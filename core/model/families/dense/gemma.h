// What Gemma's generations share.
#pragma once

#include "model/decoder.h"

namespace plimsoll::model {

/// Where the two differ when the config is silent. A layer has no window when its 1-based number
/// is a multiple of the period.
struct GemmaDefaults {
  int64_t window_period = 2;
  double attention_soft_cap = 0;
  double final_soft_cap = 0;
};

/// sqrt(hidden).
float embedding_scale(int64_t hidden);
/// The same as a bf16: of models that round it whatever they compute in.
float embedding_scale_bf16(int64_t hidden);

/// Norms before and after both branches, under Gemma 2's names.
void use_gemma_norms(Decoder& decoder);

/// What Gemma 3n and 4 share beside sizes and positions: norms of q, k and v, no scale; logits
/// capped at `soft_cap` (0: not) where the config is silent.
void read_gemma_attention(const ConfigReader& config, Decoder& decoder, double soft_cap);

/// The last `num_kv_shared_layers` layers read the keys and values of the last layer before them
/// that is of their kind, by window; adds that to decoder.heads. Returns the first of them.
int64_t share_keys(const ConfigReader& config, Decoder& decoder);

/// vLLM has the layers that share keys, from `first` on, in a module of their own.
void name_cross_decoder(ModelSpec& spec, int64_t first);

void read_gemma(const ConfigReader& config, Decoder& decoder, CommonDefaults common,
                const GemmaDefaults& defaults);

}  // namespace plimsoll::model
