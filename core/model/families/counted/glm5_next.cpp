// GLM-5.3-Flash: latent attention without positions, whose indexer pools keys, between layers of
// the delta rule, and residual streams mixed by hyper-connections. `plan` alone counts it.
#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/mixtures/deepseek.h"

namespace plimsoll::model {
ModelSpec make_glm5_next(const ConfigReader& config) {
  constexpr IntegerRange kPools{2, 1 << 10};
  constexpr int64_t kIndexHeads = 32, kUsualPool = 16;
  Decoder decoder{.family = "glm5_next"};
  for (const char* key :
       {"indexer_rope_interleave", "mhc", "mla_use_nope", "scoring_func", "topk_method"}) {
    want_for_vllm(config, key, decoder);
  }
  read_unrotated_latents(config, decoder);
  decoder.tied = false;
  use_v3(config, decoder, 3);
  Mixture& mixture = *decoder.mixture;
  mixture.sparse = sparse_by_types(config, "mlp_layer_types", sparse_from(decoder.sizes.layers, 3));
  decoder.parts = attention_or_linear(config, decoder.sizes.layers, 4);
  read_indexer(config, decoder, kIndexHeads, true);
  decoder.latent->chooses.clear();  // vLLM's class reads no `indexer_types`
  IndexerSpec& indexer = decoder.latent->attention.indexer;
  indexer.pool = config.integer({"index_kpool"}, kUsualPool, kPools);
  indexer.ring = 2 * indexer.head_dim;  // key and score
  decoder.recurrent = read_channel_delta(config, decoder.norm.epsilon);
  if (config.boolean({"mhc"}, false)) {
    const int64_t streams = config.integer({"hc_mult"}, 4, {1, 1 << 10});
    mix_streams(streams, 2 + streams, 3, decoder);
    decoder.end_parameters.clear();  // the streams are summed
  }
  decoder.vllm.whole_attention = decoder.vllm.bounded_decay = true;
  return build(decoder);
}

}  // namespace plimsoll::model
