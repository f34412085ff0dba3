// OPT and Galactica: learned positions, LayerNorm, plain MLP; OPT-350m has norms after the sums and
// narrower embeddings.
#include <cmath>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kPositionOffset = 2;  // OPTLearnedPositionalEmbedding

struct Opt {
  Sizes sizes;
  Activation activation;
  int64_t width;  // of the embeddings
  bool pre_norm, final_norm, bias, affine, tied;
};

Opt read_opt(const ConfigReader& config) {
  Opt opt{.sizes = read_even_sizes(config),
          .activation = read_activation(config, "activation_function", "relu"),
          .width = 0,
          .pre_norm = config.boolean({"do_layer_norm_before"}, true),
          .final_norm = !config.boolean({"_remove_final_layer_norm"}, false),
          .bias = config.boolean({"enable_bias"}, true),
          .affine = config.boolean({"layer_norm_elementwise_affine"}, true),
          .tied = config.boolean({"tie_word_embeddings"}, true)};
  opt.width = config.integer({"word_embed_proj_dim"}, opt.sizes.hidden, kWidths);
  return opt;
}

Norm layer_norm(const Opt& opt, SpecBuilder& add, const std::string& name) {
  const Norm kind{.kind = NormKind::layer, .epsilon = 1e-5f, .present = true};
  return opt.affine ? add.norm(name, opt.sizes.hidden, kind) : kind;
}

LayerSpec make_layer(const Opt& opt, SpecBuilder& add, const std::string& module) {
  const int64_t hidden = opt.sizes.hidden;
  const int64_t inner = opt.sizes.intermediate;
  const auto linear = [&](const std::string& name, int64_t rows, int64_t columns, Split split) {
    return add.linear(name, {Rows::all(name, rows)}, columns, {.split = split, .bias = opt.bias});
  };
  const std::string attention = module + ".self_attn";
  LayerSpec layer;
  layer.placement = opt.pre_norm ? NormPlacement::pre : NormPlacement::post;
  layer.attention = {.heads = opt.sizes.heads,
                     .kv_heads = opt.sizes.heads,
                     .head_dim = opt.sizes.head_dim,
                     .scale = 1 / std::sqrt(static_cast<float>(opt.sizes.head_dim))};
  layer.attention.qkv = add.linear(
      attention + ".qkv_proj",
      {Rows::all(attention + ".q_proj", hidden), Rows::all(attention + ".k_proj", hidden),
       Rows::all(attention + ".v_proj", hidden)},
      hidden, {.split = Split::qkv, .bias = opt.bias});
  layer.attention.out = linear(attention + ".out_proj", hidden, hidden, Split::row);
  layer.attention_norm = layer_norm(opt, add, module + ".self_attn_layer_norm");
  layer.mlp = {.kind = MlpKind::plain, .activation = opt.activation, .intermediate = inner};
  layer.mlp.up = linear(module + ".fc1", inner, hidden, Split::column);
  layer.mlp.down = linear(module + ".fc2", hidden, inner, Split::row);
  layer.mlp_norm = layer_norm(opt, add, module + ".final_layer_norm");
  return layer;
}

void add_positions(const Opt& opt, SpecBuilder& add, ModelSpec& spec) {
  const std::string positions = "model.decoder.embed_positions.weight";
  const auto projection = [&](const std::string& name, int64_t rows, int64_t columns) {
    return add.matrix(name, name, rows, columns, WeightUse::linear, Split::replicated);
  };
  spec.position_embedding =
      add.matrix(positions, positions, opt.sizes.max_position + kPositionOffset, opt.sizes.hidden,
                 WeightUse::embedding, Split::replicated);
  spec.position_offset = kPositionOffset;
  if (opt.width == opt.sizes.hidden) return;
  spec.embedding_out = projection("model.decoder.project_out.weight", opt.width, opt.sizes.hidden);
  spec.embedding_in = projection("model.decoder.project_in.weight", opt.sizes.hidden, opt.width);
}

}  // namespace

ModelSpec make_opt(const ConfigReader& config) {
  const Opt opt = read_opt(config);
  ModelSpec spec;
  spec.family = "opt";
  spec.vocab_size = opt.sizes.vocab;
  spec.hidden_size = opt.sizes.hidden;
  spec.max_position = opt.sizes.max_position;
  spec.tensor_prefixes = {{"model.decoder.", "decoder."}};

  SpecBuilder add(spec);
  const VocabularyTables vocabulary{
      .table = "model.decoder.embed_tokens.weight", .width = opt.width, .tied = opt.tied};
  add_table(vocabulary, add, spec);
  add_positions(opt, add, spec);
  if (opt.pre_norm && opt.final_norm) {
    spec.final_norm = layer_norm(opt, add, "model.decoder.final_layer_norm");
  }
  for (int64_t i = 0; i < opt.sizes.layers; ++i) {
    spec.layers.push_back(make_layer(opt, add, "model.decoder.layers." + std::to_string(i)));
  }
  add_head(vocabulary, add, spec);
  return spec;
}

}  // namespace plimsoll::model
