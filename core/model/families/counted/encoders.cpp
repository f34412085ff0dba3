// Encoders, which answer with vectors or classes: BERT and RoBERTa, ModernBERT, Nomic's, GTE.
#include "base/error.h"
#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// LayerNorms, and a table of kinds of tokens: `types` of them where the config does not say.
Decoder read_encoder(const ConfigReader& config, const char* family, int64_t types) {
  Decoder decoder{.family = family};
  read_common(config, decoder);
  decoder.norm.kind = NormKind::layer;
  decoder.norm_tensors = NormTensors::weight_and_bias;
  decoder.placement = NormPlacement::post;
  // The norm of the embedding: there is none behind the layers.
  decoder.names.final_norm = "embeddings.LayerNorm";
  decoder.token_types = config.integer({"type_vocab_size"}, types, {0, 1 << 20});
  return decoder;
}

}  // namespace

ModelSpec make_bert(const ConfigReader& config) {
  Decoder decoder = read_encoder(config, "bert", 2);
  Sizes& sizes = decoder.sizes;
  if (sizes.intermediate == 0) sizes.intermediate = 4 * sizes.hidden;
  decoder.ropes.clear();
  decoder.learned_positions = sizes.max_position;
  decoder.positions = "embeddings.position_embeddings";
  decoder.cut_positions = true;
  decoder.qkv_bias = decoder.out_bias = decoder.mlp_bias = true;
  decoder.mlp_kind = MlpKind::plain;
  return build(decoder);
}

ModelSpec make_modern_bert(const ConfigReader& config) {
  Decoder decoder = read_encoder(config, "modern_bert", 0);
  const Sizes& sizes = decoder.sizes;
  decoder.norm_tensors = NormTensors::weight;
  decoder.placement = NormPlacement::pre;  // the embedding's is counted as the first layer's
  decoder.names.final_norm = "final_norm";
  decoder.qkv_bias = decoder.out_bias = config.boolean({"attention_bias"}, false);
  decoder.mlp_bias = config.boolean({"mlp_bias"}, false);
  const int64_t period = config.integer({"global_attn_every_n_layers"}, 3, {1, 1 << 20});
  decoder.windows = read_windows(config, sizes.layers, config.integer({"local_attention"}, 128),
                                 [period](int64_t layer) { return layer % period != 0; });
  RopeDefaults rope{.head_dim = sizes.head_dim,
                    .max_position = sizes.max_position,
                    .theta = 160000,
                    .theta_key = "global_rope_theta"};
  decoder.ropes = {read_rope(config, rope)};
  rope.theta = 10000;
  rope.theta_key = "local_rope_theta";
  rope.layer_type = "sliding_attention";
  decoder.ropes.push_back(read_rope(config, rope));
  return build(decoder);
}

ModelSpec make_nomic_bert(const ConfigReader& config) {
  if (config.integer({"moe_every_n_layers"}, 0, {.least = 0}) > 0) {
    config.refuse("moe_every_n_layers", "0: layers with experts are not described");
  }
  Decoder decoder = read_encoder(config, "nomic_bert", 0);
  decoder.qkv_bias = decoder.out_bias = config.boolean({"qkv_proj_bias"}, true);
  decoder.mlp_bias = config.boolean({"mlp_fc1_bias"}, true);
  return build(decoder);
}

ModelSpec make_gte(const ConfigReader& config) {
  Decoder decoder = read_encoder(config, "gte", 0);
  decoder.qkv_bias = decoder.out_bias = decoder.down_bias = true;
  return build(decoder);
}

}  // namespace plimsoll::model
