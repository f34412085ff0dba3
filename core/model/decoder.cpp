#include "model/decoder.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kQuarters = 4;  // of CodeGen's fused q, v, k: once cut for four TPU cores

class DecoderBuilder {
 public:
  DecoderBuilder(const Decoder& decoder, ModelSpec& spec)
      : decoder_(decoder), sizes_(decoder.sizes), names_(decoder.names), spec_(spec), add_(spec) {}

  LayerSpec layer(int64_t index) {
    const std::string prefix =
        names_.root + "." + names_.layers + "." + std::to_string(index) + ".";
    LayerSpec layer;
    layer.branch_factor = decoder_.branch_factor;
    if (!decoder_.parts.empty()) parts_ = decoder_.parts[static_cast<size_t>(index)];
    if (!parts_.mlp) layer.mlp.kind = MlpKind::none;
    layer.placement = own_norms() ? NormPlacement::pre : decoder_.placement;
    for (const LayerPart part : decoder_.order) add_part(layer, part, prefix, index);
    if (decoder_.placement == NormPlacement::parallel && names_.mlp_norm.empty()) {
      layer.mlp_norm = layer.attention_norm;
    }
    return layer;
  }

  /// A layer of two halves, under the numbers 0 and 1 of its modules.
  std::array<LayerSpec, 2> halves(int64_t index) {
    const std::string prefix =
        names_.root + "." + names_.layers + "." + std::to_string(index) + ".";
    std::array<LayerSpec, 2> both;
    const auto each = [&](const auto& add) {
      for (size_t i = 0; i < both.size(); ++i) add(both[i], "." + std::to_string(i));
    };
    each([&](LayerSpec& half, const std::string& number) {
      half.attention = latent_attention(prefix + names_.attention + number);
    });
    each([&](LayerSpec& half, const std::string& number) {
      half.attention_norm = norm(prefix, names_.attention_norm + number);
    });
    each([&](LayerSpec& half, const std::string& number) {
      half.mlp_norm = norm(prefix, names_.mlp_norm + number);
    });
    each([&](LayerSpec& half, const std::string& number) {
      half.mlp = mlp(prefix + names_.mlp + number);
    });
    both[0].shortcut = feed_forward(prefix, index);
    both[1].ends_shortcut = true;
    return both;
  }

 private:
  void add_part(LayerSpec& layer, LayerPart part, const std::string& prefix, int64_t index) {
    switch (part) {
      case LayerPart::attention:
        if (parts_.attention) {
          layer.attention = decoder_.latent ? latent_attention(prefix + names_.attention)
                                            : attention(prefix, index);
        }
        if (parts_.recurrent) {
          layer.recurrent = add_recurrent(*decoder_.recurrent, prefix, sizes_.hidden, add_);
        }
        return;
      case LayerPart::mlp:
        if (!parts_.mlp) {
          layer.mlp.kind = MlpKind::none;
          return;
        }
        layer.mlp = feed_forward(prefix, index);
        return;
      case LayerPart::attention_norm:
        if (!parts_.attention && !parts_.recurrent) return;
        layer.attention_norm =
            norm(prefix, own_norms() ? decoder_.recurrent_attention_norm : names_.attention_norm);
        return;
      case LayerPart::attention_post_norm:
        if (own_norms()) return;
        layer.attention_post_norm = norm(prefix, names_.attention_post_norm);
        return;
      case LayerPart::mlp_norm:
        if (!parts_.mlp) return;
        layer.mlp_norm = norm(prefix, own_norms() ? decoder_.recurrent_mlp_norm : names_.mlp_norm);
        return;
      case LayerPart::mlp_post_norm:
        if (own_norms()) return;
        layer.mlp_post_norm = norm(prefix, names_.mlp_post_norm);
        return;
      case LayerPart::late_mlp:
        if (is_sparse(index)) {
          add_mixture(spec_, prefix, *decoder_.mixture, decoder_.mixture->names.late, layer.mlp);
        }
        return;
      case LayerPart::factor:
        layer.factor = add_.vector(prefix + names_.factor, 1);
        return;
    }
  }

  [[nodiscard]] bool own_norms() const {
    return parts_.recurrent && !decoder_.recurrent_attention_norm.empty();
  }

  Norm norm(const std::string& prefix, const std::string& name) {
    if (name.empty()) return {};
    return add_.norm(prefix + name, sizes_.hidden, decoder_.norm, decoder_.norm_tensors);
  }

  // Rows of q, k and v in the checkpoint.
  std::vector<Rows> qkv_rows(const std::string& module) {
    const int64_t q = heads_.heads * heads_.head_dim;
    const int64_t kv = heads_.kv_heads * heads_.head_dim;
    if (decoder_.query_gates) {
      const int64_t head = heads_.head_dim;
      Rows rows{.module = module + ".q_proj",
                .stored = 2 * q,
                .block = head,
                .stride = 2 * head,
                .count = heads_.heads};
      Rows gates = rows;
      gates.first = head;
      return {gates, rows, Rows::all(module + ".k_proj", kv), Rows::all(module + ".v_proj", kv)};
    }
    if (decoder_.qkv_stored == QkvStored::pairs) {
      const auto turned = [&](const char* name, int64_t heads) -> Rows {
        const int64_t head = heads_.head_dim;
        return {.module = module + name,
                .stored = heads * head,
                .block = head,
                .stride = head,
                .count = heads,
                .order = RowOrder::evens_first};
      };
      return {turned(".q_proj", heads_.heads), turned(".k_proj", heads_.kv_heads),
              Rows::all(module + ".v_proj", kv)};
    }
    if (decoder_.qkv_stored == QkvStored::apart && heads_.keys_are_values) {
      const Rows keys = Rows::all(module + ".k_proj", kv);
      return {Rows::all(module + ".q_proj", q), keys, keys};
    }
    if (decoder_.qkv_stored == QkvStored::apart) {
      return {Rows::all(module + ".q_proj", q), Rows::all(module + ".k_proj", kv),
              Rows::all(module + ".v_proj", heads_.kv_heads * value_dim())};
    }
    const std::string fused = module + "." + names_.qkv;
    const int64_t all = q + 2 * kv;
    if (decoder_.qkv_stored == QkvStored::fused) {
      return {{.module = fused, .stored = all, .first = 0, .block = q},
              {.module = fused, .stored = all, .first = q, .block = kv},
              {.module = fused, .stored = all, .first = q + kv, .block = kv}};
    }
    const int64_t head = heads_.head_dim;
    if (decoder_.qkv_stored == QkvStored::quarters) {
      const int64_t block = q / kQuarters;
      Rows rows{
          .module = fused, .stored = all, .block = block, .stride = 3 * block, .count = kQuarters};
      Rows k = rows, v = rows;
      v.first = block;
      k.first = 2 * block;
      return {rows, k, v};
    }
    const int64_t group = q / heads_.kv_heads;  // query rows of one KV head
    Rows rows{.module = fused,
              .stored = all,
              .block = group,
              .stride = group + 2 * head,
              .count = heads_.kv_heads};
    Rows k = rows;
    k.first = group;
    k.block = head;
    Rows v = k;
    v.first = group + head;
    return {rows, k, v};
  }

  // Of a layer's attention: in the checkpoint and in vLLM.
  struct Place {
    std::string module, engine;
  };
  [[nodiscard]] Place place_of(const std::string& prefix) const {
    const std::string module = prefix + names_.attention;
    if (names_.engine_attention == ".") return {module, prefix.substr(0, prefix.size() - 1)};
    return {module, names_.engine_attention.empty() ? module : prefix + names_.engine_attention};
  }

  AttentionSpec attention(const std::string& prefix, int64_t index) {
    const auto layer = static_cast<size_t>(index);
    const Place place = place_of(prefix);
    heads_ = heads_of(layer);
    AttentionSpec attention{.heads = heads_.heads,
                            .kv_heads = heads_.kv_heads,
                            .head_dim = heads_.head_dim,
                            .value_dim = heads_.value_dim,
                            .value_factor = decoder_.value_factor,
                            .scale = decoder_.attention_scale,
                            .soft_cap = decoder_.attention_soft_cap,
                            .rope_pairs = decoder_.rope_pairs,
                            .clamp = decoder_.clamp,
                            .v_norm = decoder_.v_norm,
                            .query_growth = decoder_.query_growth,
                            .gates_in_qkv = decoder_.query_gates,
                            .in_factor = decoder_.attention_factors.in,
                            .key_factor = decoder_.attention_factors.key,
                            .out_factor = decoder_.attention_factors.out,
                            .gate_kind = decoder_.gate_kind};
    if (attention.scale == 0) {
      attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(heads_.head_dim)));
    }
    if (!decoder_.windows.empty()) attention.window = decoder_.windows[layer];
    attention.rope = rope_of(layer, attention.window);
    if (heads_.sinks) attention.sinks = add_sinks(place);
    if (decoder_.alibi) attention.alibi = add_alibi(place.engine);
    switch (decoder_.attention_order) {
      case AttentionOrder::qkv_first:
        attention.qkv = qkv(place);
        attention.out = attention_out(place);
        attention.gate = attention_gate(place.module);
        add_head_norms(attention, place.module);
        break;
      case AttentionOrder::norms_before_out:
        attention.qkv = qkv(place);
        add_head_norms(attention, place.module);
        attention.out = attention_out(place);
        attention.gate = attention_gate(place.module);
        break;
      case AttentionOrder::out_between:
        attention.qkv = qkv(place);
        attention.k_norm = k_norm(place.module);
        attention.out = attention_out(place);
        attention.q_norm = q_norm(place.module);
        break;
      case AttentionOrder::out_first:
        attention.out = attention_out(place);
        add_head_norms(attention, place.module);
        attention.qkv = qkv(place);
        break;
    }
    if (decoder_.scales == ScalesPlace::at_end) attention.scales_after = add_.last();
    return attention;
  }

  [[nodiscard]] Heads heads_of(size_t layer) const {
    if (!decoder_.heads.empty()) return decoder_.heads[layer];
    return {.heads = sizes_.heads,
            .kv_heads = sizes_.kv_heads,
            .head_dim = sizes_.head_dim,
            .sinks = decoder_.sinks};
  }
  [[nodiscard]] int64_t value_dim() const {
    return heads_.value_dim > 0 ? heads_.value_dim : heads_.head_dim;
  }

  [[nodiscard]] int32_t rope_of(size_t layer, int64_t window) const {
    if (!decoder_.layer_ropes.empty()) return decoder_.layer_ropes[layer];
    if (decoder_.ropes.empty()) return -1;
    return window > 0 && decoder_.ropes.size() > 1 ? 1 : 0;
  }

  Linear qkv(const Place& place) {
    return add_.linear(place.engine + "." + names_.qkv, qkv_rows(place.module), sizes_.hidden,
                       {.split = decoder_.qkv_split.value_or(Split::qkv),
                        .bias = decoder_.qkv_bias,
                        .bias_kept = decoder_.qkv_bias_kept,
                        .heads = heads_.heads,
                        .kv_heads = heads_.kv_heads,
                        .interleaved = interleaved_cut()});
  }

  [[nodiscard]] InterleavedCut interleaved_cut() const {
    if (decoder_.query_gates) return InterleavedCut::in_place;
    const bool as_told = decoder_.qkv_stored == QkvStored::pairs || heads_.keys_are_values;
    return as_told ? InterleavedCut::untangled : decoder_.interleaved;
  }

  Linear attention_out(const Place& place) {
    return add_.linear(place.engine + "." + names_.out,
                       {Rows::all(place.module + "." + names_.out, sizes_.hidden)},
                       heads_.heads * value_dim(),
                       {.split = decoder_.attention_out_split.value_or(Split::row),
                        .bias = decoder_.out_bias,
                        .bias_kept = decoder_.out_bias_kept});
  }

  Linear attention_gate(const std::string& module) {
    if (names_.attention_gate.empty()) return {};
    const std::string gate = module + "." + names_.attention_gate;
    const int64_t width = decoder_.gate_by_head ? 1 : value_dim();
    return add_.linear(gate, {Rows::all(gate, heads_.heads * width)}, sizes_.hidden,
                       {.split = Split::column});
  }

  WeightId add_sinks(const Place& place) {
    const WeightId id = add_.vector(place.engine + "." + names_.sinks, heads_.heads);
    WeightSpec& sinks = add_.at(id);
    sinks.split = Split::column;
    sinks.parts.front().tensor = place.module + "." + names_.sinks;
    return id;
  }

  Alibi add_alibi(const std::string& module) {
    Alibi alibi = *decoder_.alibi;
    alibi.slopes = add_.add({.name = module + ".alibi_slopes",
                             .shape = {heads_.heads},
                             .use = WeightUse::vector,
                             .split = Split::column,
                             .dtype = DType::f32,
                             .kept = Kept::in_run,
                             .constant = decoder_.alibi_slopes});
    return alibi;
  }

  void add_head_norms(AttentionSpec& attention, const std::string& module) {
    if (!decoder_.qk_norm) return;
    attention.norm_order = decoder_.head_norm.order;
    if (decoder_.head_norm.weights == HeadNormStyle::Weights::all_heads) {
      attention.norm_span = NormSpan::all_heads;
    }
    attention.q_norm = q_norm(module);
    attention.k_norm = k_norm(module);
  }

  Norm q_norm(const std::string& module) {
    return head_norm(module + "." + names_.q_norm, heads_.heads, Split::column);
  }
  Norm k_norm(const std::string& module) {
    return head_norm(module + "." + names_.k_norm, heads_.kv_heads, Split::kv);
  }

  void cut_heads(WeightId id, Split split) {
    WeightSpec& weight = add_.at(id);
    weight.split = split;
    weight.heads = heads_.heads;
    weight.kv_heads = heads_.kv_heads;
  }

  /// `split`: of a norm that ranks cut.
  Norm head_norm(const std::string& name, int64_t heads, Split split) {
    using Weights = HeadNormStyle::Weights;
    const HeadNormStyle& style = decoder_.head_norm;
    const int64_t head = heads_.head_dim;
    Norm kind = decoder_.norm;
    kind.kind = style.kind;
    switch (style.weights) {
      case Weights::shared:
        return add_.norm(name, head, kind, style.tensors);
      case Weights::all_heads: {
        const Norm norm = add_.norm(name, heads * head, kind, style.tensors);
        if (style.cut) cut_heads(norm.weight, split);
        return norm;
      }
      case Weights::own:
        kind.weight = add_.parameter(name + ".weight", {heads, head});
        add_.at(kind.weight).split = Split::column;
        break;
      case Weights::own_apart:
        kind.weight = add_.add({.name = name + ".weight",
                                .shape = {heads * head},
                                .use = WeightUse::vector,
                                .split = Split::column});
        for (int64_t h = 0; h < heads; ++h) {
          add_.at(kind.weight)
              .parts.push_back({.tensor = name + ".norms." + std::to_string(h) + ".weight",
                                .stored_shape = {head},
                                .block_rows = head,
                                .block_stride = head});
        }
        break;
    }
    kind.present = true;
    return kind;
  }

  MlpSpec mlp(const std::string& module) {
    MlpSpec mlp{.kind = decoder_.mlp_kind,
                .activation = decoder_.activation,
                .intermediate = sizes_.intermediate,
                .gate_factor = decoder_.gate_factor,
                .out_factor = decoder_.mlp_factor};
    const bool fused_last = decoder_.attention_order == AttentionOrder::out_first &&
                            mlp.kind == MlpKind::gated &&
                            decoder_.gate_up_stored == GateUpStored::apart;
    if (!fused_last) mlp.up = mlp_up(module, mlp);
    mlp.down = mlp_down(module, mlp.intermediate);
    if (fused_last) mlp.up = mlp_up(module, mlp);
    if (decoder_.xielu) mlp.xielu = add_xielu(module + ".act_fn.");
    return mlp;
  }

  Linear mlp_up(const std::string& module, const MlpSpec& mlp) {
    const int64_t inner = mlp.intermediate;
    const bool gated = mlp.kind == MlpKind::gated;
    const std::string fused = module + "." + (gated ? names_.gate_up : names_.up);
    const std::string gate = module + "." + names_.gate;
    std::vector<Rows> rows = {Rows::all(gate, inner), Rows::all(module + "." + names_.up, inner)};
    if (!gated) {
      rows.erase(rows.begin());
    } else if (decoder_.gate_up_stored == GateUpStored::fused) {
      rows = {{.module = fused, .stored = 2 * inner, .first = 0, .block = inner},
              {.module = fused, .stored = 2 * inner, .first = inner, .block = inner}};
    }
    return add_.linear(
        fused, rows, sizes_.hidden,
        {.split = decoder_.mlp_split.value_or(gated ? Split::merged_column : Split::column),
         .bias = decoder_.mlp_bias,
         .bias_kept = decoder_.mlp_bias_kept,
         .interleaved = decoder_.gate_up_cut});
  }

  Linear mlp_down(const std::string& module, int64_t inner) {
    const std::string down = module + "." + names_.down;
    return add_.linear(down, {Rows::all(down, sizes_.hidden)}, inner,
                       {.split = decoder_.mlp_split.value_or(Split::row),
                        .bias = decoder_.mlp_bias,
                        .bias_kept = decoder_.mlp_bias_kept});
  }

  // `run` takes the four numbers as one vector; vLLM has a parameter for each.
  WeightId add_xielu(const std::string& module) {
    WeightSpec all{.name = module + "parameters",
                   .shape = {4},
                   .use = WeightUse::vector,
                   .kept = Kept::in_run};
    const std::pair<const char*, std::vector<int64_t>> numbers[] = {
        {"alpha_p", {1}}, {"alpha_n", {1}}, {"beta", {}}, {"eps", {}}};
    for (const auto& [name, shape] : numbers) {
      Part part{.tensor = module + name, .stored_shape = shape, .block_rows = 1, .block_stride = 1};
      all.parts.push_back(part);
      add_.add({.name = module + name,
                .shape = shape,
                .use = WeightUse::vector,
                .parts = {std::move(part)},
                .kept = Kept::in_vllm});
    }
    return add_.add(std::move(all));
  }

  [[nodiscard]] bool is_sparse(int64_t index) const {
    return decoder_.mixture && decoder_.mixture->sparse[static_cast<size_t>(index)];
  }

  MlpSpec feed_forward(const std::string& prefix, int64_t index) {
    if (!is_sparse(index)) return mlp(prefix + names_.mlp);
    MlpSpec experts = decoder_.mixture->sizes;
    experts.kind = MlpKind::experts;
    experts.activation = decoder_.activation;
    add_mixture(spec_, prefix, *decoder_.mixture, decoder_.mixture->names.order, experts);
    return experts;
  }

  AttentionSpec latent_attention(const std::string& module) {
    AttentionSpec attention = decoder_.latent->attention;
    add_latent(spec_, attention, module, decoder_.latent->modules);
    return attention;
  }

  const Decoder& decoder_;
  const Sizes& sizes_;
  const DecoderNames& names_;
  ModelSpec& spec_;
  SpecBuilder add_;
  LayerParts parts_;  // of the layer at hand
  Heads heads_;       // of the layer that is being made
};

}  // namespace

void read_common(const ConfigReader& config, Decoder& decoder, const CommonDefaults& defaults) {
  decoder.sizes = read_sizes(config, defaults.sizes);
  if (!defaults.activation_key.empty()) {
    decoder.activation = read_activation(config, defaults.activation_key, defaults.activation);
  }
  decoder.norm.epsilon =
      static_cast<float>(config.positive({defaults.epsilon_key}, defaults.epsilon));
  decoder.tied = config.boolean({"tie_word_embeddings"}, defaults.tied);
  decoder.ropes = {read_rope(config, {.head_dim = decoder.sizes.head_dim,
                                      .max_position = decoder.sizes.max_position,
                                      .theta = defaults.theta,
                                      .theta_key = defaults.theta_key,
                                      .original_max_position = defaults.original_max_position,
                                      .share_key = defaults.share_key,
                                      .share = defaults.share})};
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

void use_transformers_class(Decoder& decoder) {
  decoder.attention_order = AttentionOrder::out_first;
  decoder.scales = ScalesPlace::at_end;
  decoder.vllm.knows_stage = true;
}

void use_layer_norms(const ConfigReader& config, Decoder& decoder, std::string_view key,
                     NormTensors tensors) {
  decoder.norm.kind = NormKind::layer;
  decoder.norm.epsilon = static_cast<float>(config.positive({key}, 1e-5));
  decoder.norm_tensors = tensors;
}

void add_table(const VocabularyTables& names, SpecBuilder& add, ModelSpec& spec) {
  const std::string& own = names.engine_table.empty() ? names.table : names.engine_table;
  spec.embedding =
      add.matrix(names.tied ? names.tied_name : own, names.table, spec.vocab_size, names.width,
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

namespace {

void add_learned_positions(const Decoder& decoder, SpecBuilder& add, ModelSpec& spec) {
  if (decoder.learned_positions == 0) return;
  const std::string positions = decoder.names.root + "." + decoder.positions + ".weight";
  spec.position_embedding =
      add.matrix(positions, positions, decoder.learned_positions, decoder.sizes.hidden,
                 WeightUse::embedding, Split::replicated);
}

void add_head_bias(const VocabularyTables& vocabulary, SpecBuilder& add, ModelSpec& spec) {
  std::string name = vocabulary.head;
  name.replace(name.rfind("weight"), std::string::npos, "bias");
  spec.head_bias = add.vector(name, spec.vocab_size);
  add.at(spec.head_bias).split = Split::vocabulary;
}

}  // namespace

ModelSpec build(const Decoder& decoder) {
  ModelSpec spec;
  const Sizes& sizes = decoder.sizes;
  const DecoderNames& names = decoder.names;
  spec.family = decoder.family;
  spec.vllm = decoder.vllm;
  spec.vocab_size = sizes.vocab;
  spec.hidden_size = sizes.hidden;
  spec.max_position = decoder.ropes.empty() ? sizes.max_position : decoder.ropes.front().context;
  spec.usual_length = decoder.usual_length;
  spec.embedding_scale = decoder.embedding_scale;
  spec.final_soft_cap = decoder.final_soft_cap;
  spec.logits_scale = decoder.logits_scale;
  spec.tensor_prefixes = decoder.spellings;
  spec.ignored_suffixes = decoder.ignored;
  for (const Rope& rope : decoder.ropes) spec.ropes.push_back(rope.spec);

  SpecBuilder add(spec);
  const std::string engine_table = names.engine_embedding.empty()
                                       ? std::string()
                                       : names.root + "." + names.engine_embedding + ".weight";
  const VocabularyTables vocabulary{.table = names.root + "." + names.embedding + ".weight",
                                    .tied_name = names.tied_embedding + ".weight",
                                    .engine_table = engine_table,
                                    .head = names.head + ".weight",
                                    .width = sizes.hidden,
                                    .tied = decoder.tied};
  add_table(vocabulary, add, spec);
  if (!decoder.embedding_norm.empty()) {
    spec.embedding_norm = add.norm(names.root + "." + decoder.embedding_norm, sizes.hidden,
                                   decoder.norm, decoder.norm_tensors);
  }
  add_learned_positions(decoder, add, spec);
  DecoderBuilder layers(decoder, spec);
  spec.layers.reserve(static_cast<size_t>(sizes.layers));
  spec.layers_in_stored = decoder.halves ? 2 : 1;
  for (int64_t i = 0; i < sizes.layers; ++i) {
    if (decoder.halves) {
      for (LayerSpec& half : layers.halves(i)) spec.layers.push_back(std::move(half));
    } else {
      spec.layers.push_back(layers.layer(i));
    }
  }
  spec.final_norm = add.norm(names.root + "." + names.final_norm, sizes.hidden, decoder.norm,
                             decoder.norm_tensors);
  add_head(vocabulary, add, spec);
  if (decoder.head_bias) add_head_bias(vocabulary, add, spec);
  return spec;
}

}  // namespace plimsoll::model
