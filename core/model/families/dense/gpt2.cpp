// GPT-2: learned positions, LayerNorm, fused q, k, v, plain MLP, matrices stored [in, out].
#include <cmath>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

struct Gpt2 {
  Sizes sizes;
  Activation activation;
  Norm norm;
  bool scaled, scaled_by_layer;
};

Gpt2 read_gpt2(const ConfigReader& config) {
  if (config.boolean({"add_cross_attention"}, false)) {
    config.doubt("add_cross_attention", "false: encoder states are not supported");
  }
  return {.sizes = read_fourfold_sizes(config),
          .activation = read_activation(config, "activation_function", "gelu_new"),
          .norm = {.kind = NormKind::layer,
                   .epsilon = static_cast<float>(config.positive({"layer_norm_epsilon"}, 1e-5))},
          .scaled = config.boolean({"scale_attn_weights"}, true),
          .scaled_by_layer = config.boolean({"scale_attn_by_inverse_layer_idx"}, false)};
}

AttentionSpec make_attention(const Gpt2& gpt2, SpecBuilder& add, const std::string& module,
                             int64_t index) {
  const int64_t hidden = gpt2.sizes.hidden;
  AttentionSpec attention{
      .heads = gpt2.sizes.heads, .kv_heads = gpt2.sizes.heads, .head_dim = gpt2.sizes.head_dim};
  attention.scale = gpt2.scaled ? 1 / std::sqrt(static_cast<float>(gpt2.sizes.head_dim)) : 1;
  if (gpt2.scaled_by_layer) attention.scale /= static_cast<float>(index + 1);
  const std::string qkv = module + ".c_attn";
  const std::vector<Rows> rows = Rows::parts(qkv, {hidden, hidden, hidden});
  attention.qkv =
      add.linear(qkv, rows, hidden, {.split = Split::qkv, .bias = true, .transposed = true});
  const std::string out = module + ".c_proj";
  attention.out = add.linear(out, {Rows::all(out, hidden)}, hidden,
                             {.split = Split::row, .bias = true, .transposed = true});
  return attention;
}

MlpSpec make_mlp(const Gpt2& gpt2, SpecBuilder& add, const std::string& module) {
  const int64_t hidden = gpt2.sizes.hidden;
  const int64_t inner = gpt2.sizes.intermediate;
  MlpSpec mlp{.kind = MlpKind::plain, .activation = gpt2.activation, .intermediate = inner};
  const std::string up = module + ".c_fc";
  const std::string down = module + ".c_proj";
  mlp.up = add.linear(up, {Rows::all(up, inner)}, hidden,
                      {.split = Split::column, .bias = true, .transposed = true});
  mlp.down = add.linear(down, {Rows::all(down, hidden)}, inner,
                        {.split = Split::row, .bias = true, .transposed = true});
  return mlp;
}

}  // namespace

ModelSpec make_gpt2(const ConfigReader& config) {
  const Gpt2 gpt2 = read_gpt2(config);
  const Sizes& sizes = gpt2.sizes;
  const bool tied = config.boolean({"tie_word_embeddings"}, true);
  ModelSpec spec;
  spec.family = "gpt2";
  spec.vocab_size = sizes.vocab;
  spec.hidden_size = sizes.hidden;
  spec.max_position = sizes.max_position;
  spec.tensor_prefixes = {{"transformer.", ""}};
  spec.ignored_suffixes = {".attn.masked_bias"};  // .attn.bias, the mask, is a bias too many

  SpecBuilder add(spec);
  const VocabularyTables vocabulary{
      .table = "transformer.wte.weight", .width = sizes.hidden, .tied = tied};
  const std::string positions = "transformer.wpe.weight";
  add_table(vocabulary, add, spec);
  spec.position_embedding = add.matrix(positions, positions, sizes.max_position, sizes.hidden,
                                       WeightUse::embedding, Split::replicated);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const std::string module = "transformer.h." + std::to_string(i);
    LayerSpec layer;
    layer.attention_norm = add.norm(module + ".ln_1", sizes.hidden, gpt2.norm);
    layer.attention = make_attention(gpt2, add, module + ".attn", i);
    layer.mlp_norm = add.norm(module + ".ln_2", sizes.hidden, gpt2.norm);
    layer.mlp = make_mlp(gpt2, add, module + ".mlp");
    spec.layers.push_back(layer);
  }
  spec.final_norm = add.norm("transformer.ln_f", sizes.hidden, gpt2.norm);
  add_head(vocabulary, add, spec);
  return spec;
}

}  // namespace plimsoll::model
