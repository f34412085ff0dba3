// GLM-5.3-Flash: latent attention without positions, whose indexer pools keys, between layers of
// the delta rule, and residual streams mixed by hyper-connections. `plan` alone counts it.
#include "model/decoder.h"
#include "model/families/families.h"
#include "model/families/mixtures/deepseek.h"

namespace plimsoll::model {
namespace {

/// Refuses what transformers' config or vLLM's class refuses (glm5_next: validate_architecture;
/// vllm/models/glm5next/common).
void check_glm5_next(const ConfigReader& config, const Decoder& decoder) {
  const int64_t heads = decoder.sizes.heads;
  if (config.integer({"num_key_value_heads"}, heads) != heads)
    config.refuse("num_key_value_heads", "num_attention_heads");
  if (config.integer({"qk_rope_head_dim"}, 0, {0}) != 0)
    config.refuse("qk_rope_head_dim", "0: its attention has no positions");
  const IndexerSpec& indexer = decoder.latent->attention.indexer;
  if (indexer.most % indexer.pool != 0) config.refuse("index_topk", "a multiple of index_kpool");
  if (!config.boolean({"index_kpool_always_select_tail"}, true))
    config.refuse("index_kpool_always_select_tail", "true: vLLM's kernels always select it");
}

}  // namespace

ModelSpec make_glm5_next(const ConfigReader& config) {
  constexpr IntegerRange kPools{2, 1 << 10};
  constexpr int64_t kIndexHeads = 32, kUsualPool = 16;
  Decoder decoder{.family = "glm5_next"};
  for (const char* key :
       {"indexer_rope_interleave", "mhc", "mla_use_nope", "scoring_func", "topk_method"}) {
    want_for_vllm(config, key, decoder);
  }
  want_silu(config);
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
  check_glm5_next(config, decoder);
  decoder.recurrent = read_channel_delta(config, decoder.norm.epsilon);
  if (config.boolean({"mhc"}, false)) {
    const int64_t streams = config.integer({"hc_mult"}, 4, {1, 1 << 10});
    mix_streams(streams, 2 + streams, 3, decoder);
    decoder.end_parameters.clear();  // the streams are summed
  }
  decoder.vllm.whole_attention = decoder.vllm.bounded_decay = true;
  decoder.vllm.copies_whole_steps = true;
  decoder.vllm.whole_shared = VllmVersion{0, 30, 0};
  return build(decoder);
}

}  // namespace plimsoll::model
