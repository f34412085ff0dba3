#include "model/decoder.h"

#include <cmath>
#include <tuple>

#include "base/error.h"

namespace plimsoll::model {
namespace {

class DecoderBuilder {
 public:
  DecoderBuilder(const Decoder& decoder, ModelSpec& spec)
      : decoder_(decoder), sizes_(decoder.sizes), names_(decoder.names), add_(spec) {}

  LayerSpec layer(int64_t index) {
    const std::string prefix = "model.layers." + std::to_string(index) + ".";
    LayerSpec layer;
    layer.placement = decoder_.placement;
    layer.attention = attention(prefix + names_.attention, index);
    const bool sparse = decoder_.experts && decoder_.experts->sparse[static_cast<size_t>(index)];
    layer.mlp = sparse ? experts(prefix) : mlp(prefix + names_.mlp);
    layer.attention_norm = norm(prefix, names_.attention_norm);
    layer.attention_post_norm = norm(prefix, names_.attention_post_norm);
    layer.mlp_norm = norm(prefix, names_.mlp_norm);
    layer.mlp_post_norm = norm(prefix, names_.mlp_post_norm);
    return layer;
  }

 private:
  Norm norm(const std::string& prefix, const std::string& name) {
    if (name.empty()) return {};
    return add_.norm(prefix + name, sizes_.hidden, decoder_.norm);
  }

  // Rows of q, k and v in the checkpoint.
  std::vector<Rows> qkv_rows(const std::string& module) {
    const int64_t q = sizes_.heads * sizes_.head_dim;
    const int64_t kv = sizes_.kv_heads * sizes_.head_dim;
    if (decoder_.qkv_stored == QkvStored::apart) {
      return {Rows::all(module + ".q_proj", q), Rows::all(module + ".k_proj", kv),
              Rows::all(module + ".v_proj", kv)};
    }
    const std::string fused = module + "." + names_.qkv;
    const int64_t all = q + 2 * kv;
    if (decoder_.qkv_stored == QkvStored::fused) {
      return {{.module = fused, .stored = all, .first = 0, .block = q},
              {.module = fused, .stored = all, .first = q, .block = kv},
              {.module = fused, .stored = all, .first = q + kv, .block = kv}};
    }
    const int64_t group = q / sizes_.kv_heads;  // query rows of one KV head
    const int64_t head = sizes_.head_dim;
    Rows rows{.module = fused,
              .stored = all,
              .block = group,
              .stride = group + 2 * head,
              .count = sizes_.kv_heads};
    Rows k = rows;
    k.first = group;
    k.block = head;
    Rows v = k;
    v.first = group + head;
    return {rows, k, v};
  }

  AttentionSpec attention(const std::string& module, int64_t index) {
    const auto layer = static_cast<size_t>(index);
    AttentionSpec attention{.heads = sizes_.heads,
                            .kv_heads = sizes_.kv_heads,
                            .head_dim = sizes_.head_dim,
                            .scale = decoder_.attention_scale,
                            .soft_cap = decoder_.attention_soft_cap};
    if (attention.scale == 0) {
      attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(sizes_.head_dim)));
    }
    if (!decoder_.windows.empty()) attention.window = decoder_.windows[layer];
    attention.rope = attention.window > 0 && decoder_.ropes.size() > 1 ? 1 : 0;
    attention.qkv = add_.linear(module + "." + names_.qkv, qkv_rows(module), sizes_.hidden,
                                {.split = Split::qkv,
                                 .bias = decoder_.qkv_bias,
                                 .bias_kept = decoder_.qkv_bias_kept,
                                 .heads = sizes_.heads,
                                 .kv_heads = sizes_.kv_heads});
    const std::string out = module + "." + names_.out;
    attention.out = add_.linear(
        out, {Rows::all(out, sizes_.hidden)}, sizes_.heads * sizes_.head_dim,
        {.split = Split::row, .bias = decoder_.out_bias, .bias_kept = decoder_.out_bias_kept});
    if (decoder_.qk_norm) {
      attention.q_norm = add_.norm(module + ".q_norm", sizes_.head_dim, decoder_.norm);
      attention.k_norm = add_.norm(module + ".k_norm", sizes_.head_dim, decoder_.norm);
    }
    return attention;
  }

  MlpSpec mlp(const std::string& module) {
    MlpSpec mlp{.activation = decoder_.activation, .intermediate = sizes_.intermediate};
    const int64_t inner = mlp.intermediate;
    const std::string fused = module + ".gate_up_proj";
    std::vector<Rows> rows;
    if (decoder_.gate_up_stored == GateUpStored::fused) {
      rows = {{.module = fused, .stored = 2 * inner, .first = 0, .block = inner},
              {.module = fused, .stored = 2 * inner, .first = inner, .block = inner}};
    } else {
      rows = {Rows::all(module + "." + names_.gate, inner),
              Rows::all(module + "." + names_.up, inner)};
    }
    mlp.up = add_.linear(fused, rows, sizes_.hidden,
                         {.split = Split::merged_column,
                          .bias = decoder_.mlp_bias,
                          .bias_kept = decoder_.mlp_bias_kept});
    const std::string down = module + "." + names_.down;
    mlp.down = add_.linear(
        down, {Rows::all(down, sizes_.hidden)}, inner,
        {.split = Split::row, .bias = decoder_.mlp_bias, .bias_kept = decoder_.mlp_bias_kept});
    return mlp;
  }

  MlpSpec experts(const std::string& prefix) {
    const ExpertsTable& table = *decoder_.experts;
    const std::string module = prefix + table.module;
    MlpSpec mlp = table.sizes;
    mlp.kind = MlpKind::experts;
    mlp.activation = decoder_.activation;
    mlp.router = add_.linear(module + "." + table.engine_gate,
                             {Rows::all(module + ".gate", mlp.experts)}, sizes_.hidden, {});
    std::tie(mlp.up, mlp.down) = add_.experts(module + ".experts.routed_experts",
                                              module + ".experts", table.names, mlp, sizes_.hidden);
    return mlp;
  }

  const Decoder& decoder_;
  const Sizes& sizes_;
  const DecoderNames& names_;
  SpecBuilder add_;
};

}  // namespace

void read_common(const ConfigReader& config, Decoder& decoder, const CommonDefaults& defaults) {
  decoder.sizes = read_sizes(config, defaults.sizes);
  decoder.activation = read_activation(config, defaults.activation_key, defaults.activation);
  decoder.norm.epsilon = static_cast<float>(config.positive({"rms_norm_eps"}, defaults.epsilon));
  decoder.tied = config.boolean({"tie_word_embeddings"}, defaults.tied);
  decoder.ropes = {read_rope(config, {.head_dim = decoder.sizes.head_dim,
                                      .max_position = decoder.sizes.max_position,
                                      .theta = defaults.theta,
                                      .original_max_position = defaults.original_max_position})};
}

void add_llama_biases(const ConfigReader& config, Decoder& decoder) {
  const auto add = [](bool in_vllm, bool& bias, Kept& kept) {
    if (bias && !in_vllm) kept = Kept::in_run;
    if (!bias && in_vllm) kept = Kept::in_vllm;
    bias = bias || in_vllm;
  };
  const bool attention =
      config.boolean({"attention_bias"}, false) || config.boolean({"bias"}, false);
  add(config.boolean({"qkv_bias"}, attention), decoder.qkv_bias, decoder.qkv_bias_kept);
  add(attention, decoder.out_bias, decoder.out_bias_kept);
  add(config.boolean({"mlp_bias"}, false), decoder.mlp_bias, decoder.mlp_bias_kept);
}

ExpertsTable read_experts(const ConfigReader& config, const Sizes& sizes, const MlpSpec& missing) {
  constexpr int64_t kMostExperts = int64_t{1} << 17;  // in all layers
  ExpertsTable table;
  table.sizes.intermediate = missing.intermediate;
  table.sizes.experts =
      config.integer({"num_local_experts", "num_experts"}, missing.experts, {1, 4096});
  table.sizes.experts_per_token =
      config.integer({"num_experts_per_tok"}, missing.experts_per_token, {1, table.sizes.experts});
  if (table.sizes.experts * sizes.layers > kMostExperts) {
    config.refuse("num_hidden_layers",
                  fmt::format("at most {} experts in all layers", kMostExperts));
  }
  table.sparse.assign(static_cast<size_t>(sizes.layers), true);
  return table;
}

void add_table(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec) {
  spec.embedding = add.matrix(
      names.tied ? names.tied_name : names.table, names.table, spec.vocab_size, names.width,
      names.tied ? WeightUse::linear : WeightUse::embedding, Split::vocabulary);
}

void add_head(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec) {
  if (!names.tied) {
    spec.head = add.matrix(names.head, names.head, spec.vocab_size, names.width, WeightUse::linear,
                           Split::vocabulary);
    return;
  }
  spec.head = spec.embedding;
  // vLLM looks for a head of the checkpoint's own by this name alone.
  if (names.head == "lm_head.weight") {
    spec.tied_head = TiedHead{.table = names.table, .head = names.head, .tensor = names.head};
  }
  spec.tensor_prefixes.emplace_back(names.table, names.head);  // the one table under its other name
  spec.ignored_suffixes.push_back(names.head);
}

ModelSpec build(const Decoder& decoder) {
  ModelSpec spec;
  const Sizes& sizes = decoder.sizes;
  spec.family = decoder.family;
  spec.vocab_size = sizes.vocab;
  spec.hidden_size = sizes.hidden;
  spec.max_position = decoder.ropes.front().context;
  spec.embedding_scale = decoder.embedding_scale;
  spec.final_soft_cap = decoder.final_soft_cap;
  for (const Rope& rope : decoder.ropes) spec.ropes.push_back(rope.spec);

  SpecBuilder add(spec);
  const VocabularyTables vocabulary{.table = "model." + decoder.names.embedding + ".weight",
                                    .tied_name = decoder.names.tied_embedding + ".weight",
                                    .head = decoder.names.head + ".weight",
                                    .width = sizes.hidden,
                                    .tied = decoder.tied};
  add_table(vocabulary, add, spec);
  DecoderBuilder layers(decoder, spec);
  spec.layers.reserve(static_cast<size_t>(sizes.layers));
  for (int64_t i = 0; i < sizes.layers; ++i) spec.layers.push_back(layers.layer(i));
  spec.final_norm = add.norm("model.norm", sizes.hidden, decoder.norm);
  add_head(vocabulary, add, spec);
  return spec;
}

}  // namespace plimsoll::model
