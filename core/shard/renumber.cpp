#include "shard/renumber.h"

namespace plimsoll::shard {

using model::ModelSpec;
using model::WeightId;

void renumber(ModelSpec& spec, const std::vector<WeightId>& now) {
  const auto id = [&](WeightId& old) {
    if (old != model::kNoWeight) old = now[static_cast<size_t>(old)];
  };
  const auto pair = [&](auto& both) {
    id(both.weight);
    id(both.bias);
  };
  for (WeightId* one : {&spec.embedding, &spec.position_embedding, &spec.embedding_in,
                        &spec.embedding_out, &spec.head, &spec.head_bias}) {
    id(*one);
  }
  pair(spec.final_norm);
  for (model::LayerSpec& layer : spec.layers) {
    for (model::Norm* norm :
         {&layer.attention_norm, &layer.attention_post_norm, &layer.mlp_norm, &layer.mlp_post_norm,
          &layer.attention.q_norm, &layer.attention.k_norm}) {
      pair(*norm);
    }
    model::MlpSpec& mlp = layer.mlp;
    model::AttentionSpec& attention = layer.attention;
    for (model::Linear* linear :
         {&attention.qkv, &attention.gate, &attention.out, &attention.latent.q_down,
          &attention.latent.kv_down, &attention.latent.q_up, &attention.latent.kv_up,
          &attention.indexer.q_up, &attention.indexer.down, &mlp.up, &mlp.down, &mlp.router.gate,
          &mlp.shared.up, &mlp.shared.down, &mlp.shared.gate}) {
      pair(*linear);
    }
    for (model::Norm* norm :
         {&attention.latent.q_norm, &attention.latent.kv_norm, &attention.indexer.k_norm,
          &mlp.experts_norm, &mlp.experts_out_norm, &mlp.router.norm, &mlp.shared.out_norm}) {
      pair(*norm);
    }
    for (WeightId* one : {&attention.sinks, &attention.alibi.slopes, &mlp.router.choice_bias,
                          &mlp.router.expert_scale, &mlp.xielu, &layer.factor}) {
      id(*one);
    }
  }
}

}  // namespace plimsoll::shard
