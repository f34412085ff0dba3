// Attention of a decoder's layer: q, k, v and output, norms of heads, sinks, ALiBi.
#include <cmath>
#include <utility>

#include "model/decoder_layers.h"

namespace plimsoll::model {
namespace {

constexpr int64_t kQuarters = 4;  // of CodeGen's fused q, v, k: once cut for four TPU cores

Heads heads_of(const Decoder& decoder, size_t layer) {
  if (!decoder.heads.empty()) return decoder.heads[layer];
  return {.heads = decoder.sizes.heads,
          .kv_heads = decoder.sizes.kv_heads,
          .head_dim = decoder.sizes.head_dim,
          .sinks = decoder.sinks};
}

class AttentionBuilder {
 public:
  AttentionBuilder(const Decoder& decoder, size_t layer, SpecBuilder& add)
      : decoder_(decoder),
        names_(decoder.names),
        layer_(layer),
        heads_(heads_of(decoder, layer)),
        add_(add) {}

  AttentionSpec build(const std::string& prefix) {
    const Place place = place_of(prefix);
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
                            .keys_of = heads_.keys_of,
                            .gates_in_qkv = decoder_.query_gates,
                            .in_factor = decoder_.attention_factors.in,
                            .key_factor = decoder_.attention_factors.key,
                            .out_factor = decoder_.attention_factors.out,
                            .gate_kind = decoder_.gate_kind};
    if (attention.scale == 0) {
      attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(heads_.head_dim)));
    }
    if (!decoder_.windows.empty()) attention.window = decoder_.windows[layer_];
    attention.rope = rope_of(attention.window);
    if (heads_.sinks) attention.sinks = add_sinks(place);
    if (decoder_.alibi) attention.alibi = add_alibi(place.engine);
    if (decoder_.shared_query > 0) spread_query(attention, place.module);
    if (!decoder_.block_index.empty()) add_block_index(attention.indexer, place.module);
    if (decoder_.pooled_index) attention.indexer = pooled_index(place.module + ".indexer.");
    switch (decoder_.attention_order) {
      case AttentionOrder::qkv_first:
        attention.qkv = qkv(place);
        attention.out = attention_out(place);
        attention.gate = attention_gate(decoder_, heads_.heads, value_dim(), place.module, add_);
        add_head_norms(attention, place.module);
        break;
      case AttentionOrder::norms_before_out:
        attention.qkv = qkv(place);
        add_head_norms(attention, place.module);
        attention.out = attention_out(place);
        attention.gate = attention_gate(decoder_, heads_.heads, value_dim(), place.module, add_);
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

 private:
  // Module of a layer's attention, in the checkpoint and in vLLM.
  struct Place {
    std::string module, engine;
  };
  [[nodiscard]] Place place_of(const std::string& prefix) const {
    const std::string module = prefix + names_.attention;
    if (names_.engine_attention == ".") return {module, prefix.substr(0, prefix.size() - 1)};
    return {module, names_.engine_attention.empty() ? module : prefix + names_.engine_attention};
  }

  // Rows of q, k and v in the checkpoint.
  std::vector<Rows> qkv_rows(const std::string& module) {
    const int64_t q = heads_.heads * heads_.head_dim;
    const int64_t kv = heads_.kv_heads * heads_.head_dim;
    if (decoder_.query_gates) {
      const auto rows =
          Rows::parts(module + ".q_proj", {heads_.head_dim, heads_.head_dim}, heads_.heads);
      return {rows[1], rows[0], Rows::all(module + ".k_proj", kv),
              Rows::all(module + ".v_proj", kv)};
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
    if (decoder_.qkv_stored == QkvStored::paired_keys) {
      const int64_t head = heads_.head_dim;
      const auto pairs = Rows::parts(module + ".key_value", {head, head}, heads_.kv_heads);
      return {Rows::all(module + ".query", q), pairs[0], pairs[1]};
    }
    const std::string fused = module + "." + names_.qkv;
    if (decoder_.qkv_stored == QkvStored::fused) return Rows::parts(fused, {q, kv, kv});
    if (decoder_.qkv_stored == QkvStored::quarters) {
      const int64_t block = q / kQuarters;
      const auto rows = Rows::parts(fused, {block, block, block}, kQuarters);  // q, v, k
      return {rows[0], rows[2], rows[1]};
    }
    const int64_t head = heads_.head_dim;
    return Rows::parts(fused, {q / heads_.kv_heads, head, head}, heads_.kv_heads);
  }

  [[nodiscard]] int64_t value_dim() const {
    return heads_.value_dim > 0 ? heads_.value_dim : heads_.head_dim;
  }

  [[nodiscard]] int32_t rope_of(int64_t window) const {
    if (!decoder_.layer_ropes.empty()) return decoder_.layer_ropes[layer_];
    if (decoder_.ropes.empty()) return -1;
    return window > 0 && decoder_.ropes.size() > 1 ? 1 : 0;
  }

  Linear qkv(const Place& place) {
    if (heads_.keys_of >= 0) {
      const std::string q = ".q_proj";
      return add_.linear(
          place.engine + q, {Rows::all(place.module + q, heads_.heads * heads_.head_dim)},
          decoder_.sizes.hidden,
          {.split = Split::column, .bias = decoder_.qkv_bias, .bias_kept = decoder_.qkv_bias_kept});
    }
    if (decoder_.shared_query > 0) {
      return add_.linear(place.engine + "." + names_.qkv,
                         decoder_.shared_query + 2 * heads_.kv_heads * heads_.head_dim,
                         decoder_.sizes.hidden, {});
    }
    return add_.linear(place.engine + "." + names_.qkv, qkv_rows(place.module),
                       decoder_.sizes.hidden,
                       {.split = decoder_.qkv_split.value_or(Split::qkv),
                        .bias = decoder_.qkv_bias,
                        .bias_kept = decoder_.qkv_bias_kept,
                        .heads = heads_.heads,
                        .kv_heads = heads_.kv_heads,
                        .interleaved = interleaved_cut()});
  }

  /// Adds the norm of the query that all heads share, and the matrix that makes theirs of it.
  void spread_query(AttentionSpec& attention, const std::string& module) {
    const int64_t width = attention.latent.q_rank = decoder_.shared_query;
    attention.latent.q_norm = add_.norm(module + ".inter_norm", width, decoder_.norm);
    attention.latent.q_up = add_.linear(module + ".wq", heads_.heads * heads_.head_dim, width,
                                        {.split = Split::column});
  }

  /// Adds queries of an index for each KV head, and its one key, each with a norm.
  void add_block_index(IndexerSpec& indexer, const std::string& module) {
    const int64_t head = decoder_.block_index[layer_];
    if (head == 0) return;
    indexer.heads = heads_.kv_heads;
    indexer.head_dim = head;
    indexer.q_up = add_.linear(module + ".index_qkv_proj",
                               {Rows::all(module + ".index_q_proj", heads_.kv_heads * head),
                                Rows::all(module + ".index_k_proj", head)},
                               decoder_.sizes.hidden, {.split = Split::kv});
    add_.at(indexer.q_up.weight).parts.back().every_rank = true;
    add_.norm(module + ".index_q_norm", head, decoder_.norm);
    indexer.k_norm = add_.norm(module + ".index_k_norm", head, decoder_.norm);
  }

  IndexerSpec pooled_index(const std::string& module) {
    IndexerSpec indexer = *decoder_.pooled_index;
    const int64_t heads = indexer.heads + 1;  // and one for keys
    indexer.q_up =
        add_.linear(module + "index_qk_proj", heads * indexer.head_dim, decoder_.sizes.hidden, {});
    add_.norm(module + "q_layernorm", indexer.head_dim, decoder_.norm);
    indexer.k_norm = add_.norm(module + "k_layernorm", indexer.head_dim, decoder_.norm);
    return indexer;
  }

  [[nodiscard]] InterleavedCut interleaved_cut() const {
    if (decoder_.query_gates) return InterleavedCut::in_place;
    const bool as_told = decoder_.qkv_stored == QkvStored::pairs ||
                         decoder_.qkv_stored == QkvStored::paired_keys || heads_.keys_are_values;
    return as_told ? InterleavedCut::untangled : decoder_.interleaved;
  }

  Linear attention_out(const Place& place) {
    return add_.linear(place.engine + "." + names_.out,
                       {Rows::all(place.module + "." + names_.out, decoder_.sizes.hidden)},
                       heads_.heads * value_dim(),
                       {.split = decoder_.attention_out_split.value_or(Split::row),
                        .bias = decoder_.out_bias,
                        .bias_kept = decoder_.out_bias_kept});
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
    if (heads_.keys_of >= 0) return {};
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

  const Decoder& decoder_;
  const DecoderNames& names_;
  const size_t layer_;
  const Heads heads_;
  SpecBuilder& add_;
};

}  // namespace

Linear attention_gate(const Decoder& decoder, int64_t heads, int64_t value_dim,
                      const std::string& module, SpecBuilder& add) {
  if (decoder.names.attention_gate.empty()) return {};
  return add.linear(module + "." + decoder.names.attention_gate,
                    heads * (decoder.gate_by_head ? 1 : value_dim), decoder.sizes.hidden,
                    {.split = Split::column});
}

AttentionSpec add_attention(const Decoder& decoder, const std::string& prefix, int64_t layer,
                            SpecBuilder& add) {
  return AttentionBuilder(decoder, static_cast<size_t>(layer), add).build(prefix);
}

}  // namespace plimsoll::model
