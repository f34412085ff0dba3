// A decoder's layers: norms, mixers, MLPs and experts in the order of vLLM's class.
#include "model/decoder_layers.h"

#include <array>
#include <utility>

namespace plimsoll::model {
namespace {

class LayersBuilder {
 public:
  LayersBuilder(const Decoder& decoder, ModelSpec& spec)
      : decoder_(decoder), sizes_(decoder.sizes), names_(decoder.names), spec_(spec), add_(spec) {}

  LayerSpec layer(int64_t index) {
    const std::string prefix = prefix_of(index);
    LayerSpec layer;
    layer.branch_factor = decoder_.branch_factor;
    if (!decoder_.parts.empty()) parts_ = decoder_.parts[static_cast<size_t>(index)];
    if (!parts_.mlp) layer.mlp.kind = MlpKind::none;
    layer.placement = own_norms() ? NormPlacement::pre : decoder_.placement;
    layer.attention_blend = parts_.recurrent ? decoder_.recurrent_blend : decoder_.attention_blend;
    layer.mlp_blend = decoder_.mlp_blend;
    if (!decoder_.ngrams.empty()) layer.ngrams = decoder_.ngrams[static_cast<size_t>(index)];
    if (layer.ngrams) add_ngrams(*layer.ngrams, prefix + "ple.");
    for (const LayerPart part : decoder_.order) add_part(layer, part, prefix, index);
    add_parameters(decoder_.layer_parameters, prefix, add_);
    if (decoder_.placement == NormPlacement::parallel && names_.mlp_norm.empty()) {
      layer.mlp_norm = layer.attention_norm;
    }
    return layer;
  }

  /// A layer of two halves, under the numbers 0 and 1 of its modules.
  std::array<LayerSpec, 2> halves(int64_t index) {
    const std::string prefix = prefix_of(index);
    std::array<LayerSpec, 2> both;
    const auto each = [&](const auto& add) {
      for (size_t i = 0; i < both.size(); ++i) add(both[i], "." + std::to_string(i));
    };
    each([&](LayerSpec& half, const std::string& number) {
      half.attention = latent_attention(prefix + names_.attention + number, index);
    });
    each([&](LayerSpec& half, const std::string& number) {
      half.attention_norm = norm(prefix, names_.attention_norm + number);
    });
    each([&](LayerSpec& half, const std::string& number) {
      half.mlp_norm = norm(prefix, names_.mlp_norm + number);
    });
    each([&](LayerSpec& half, const std::string& number) {
      half.mlp = mlp(prefix + names_.mlp + number, index);
    });
    both[0].shortcut = feed_forward(prefix, index, decoder_.mixture);
    both[1].ends_shortcut = true;
    return both;
  }

 private:
  [[nodiscard]] std::string prefix_of(int64_t index) const {
    return names_.root + "." + names_.layers + "." + std::to_string(index) + ".";
  }

  void add_part(LayerSpec& layer, LayerPart part, const std::string& prefix, int64_t index) {
    switch (part) {
      case LayerPart::attention:
        if (parts_.attention) {
          const std::string module = prefix + names_.attention;
          layer.attention = decoder_.compressed ? compressed_attention(module, index)
                            : decoder_.latent   ? latent_attention(module, index)
                                                : add_attention(decoder_, prefix, index, add_);
        }
        if (parts_.recurrent) {
          RecurrentTable table = *decoder_.recurrent;
          if (table.sizes.kind == RecurrentKind::linear) {
            table.decays = lightning_decays(table.sizes.heads, index, sizes_.layers);
          }
          layer.recurrent = add_recurrent(table, prefix, sizes_.hidden, add_);
        }
        if (decoder_.crossed) layer.crossed = crossed_attention(prefix);
        return;
      case LayerPart::mlp:
        if (parts_.mlp) layer.mlp = feed_forward(prefix, index, decoder_.mixture);
        if (is_sparse(decoder_.image_mixture, index) ||
            (decoder_.image_mixture && is_sparse(decoder_.mixture, index))) {
          layer.shortcut = feed_forward(prefix, index, decoder_.image_mixture);
        }
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
        if (is_sparse(decoder_.mixture, index)) {
          add_mixture(spec_, prefix, *decoder_.mixture, decoder_.mixture->names.late, layer.mlp);
        }
        return;
      case LayerPart::factor:
        layer.factor = add_.vector(prefix + names_.factor, 1);
        add_.at(layer.factor).is_buffer = true;
        return;
      case LayerPart::input:
        if (decoder_.layer_input > 0) layer.input = layer_input(prefix);
        return;
      case LayerPart::input_norm:
        if (layer.input) layer.input->norm = norm(prefix, "post_per_layer_input_norm");
        return;
      case LayerPart::streams:
        layer.streams = streams(prefix + "altup.");
        return;
      case LayerPart::laurel:
        add_laurel(prefix + "laurel.", *layer.streams);
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

  /// Adds what stands beside the table, which is no weight of a card.
  void add_ngrams(const NgramSpec& ngrams, const std::string& module) {
    add_.linear(module + "kv_proj",
                {Rows::all(module + "key_proj", ngrams.channels),
                 Rows::all(module + "value_proj", sizes_.hidden)},
                ngrams.inputs, {});
    for (const char* name : {"norm_key", "norm_query", "norm_conv"}) {
      add_.vector(module + name + ".weight", ngrams.channels);
    }
    add_.parameter(module + "conv1d.weight", {ngrams.channels, 1, ngrams.taps});
  }

  LayerInput layer_input(const std::string& prefix) {
    LayerInput input{.activation = decoder_.activation};
    const int64_t width = decoder_.layer_input;
    input.gate = add_.linear(prefix + "per_layer_input_gate", width, sizes_.hidden, {});
    input.projection = add_.linear(prefix + "per_layer_projection", sizes_.hidden, width, {});
    return input;
  }

  StreamLayer streams(const std::string& module) {
    const int64_t n = decoder_.streams;
    StreamLayer layer;
    layer.input_scale = add_.vector(module + "correct_output_scale", sizes_.hidden);
    add_.at(layer.input_scale).dtype = DType::f32;
    layer.correct = add_.linear(module + "correction_coefs", n, n, {});
    layer.predict = add_.linear(module + "prediction_coefs", n * n, n, {});
    layer.router = add_.linear(module + "modality_router", n, sizes_.hidden, {});
    layer.norm = norm(module, "router_norm");
    return layer;
  }

  void add_laurel(const std::string& module, StreamLayer& layer) {
    const int64_t rank = decoder_.laurel_rank;
    layer.laurel.down =
        add_.linear(module + "linear_left", rank, sizes_.hidden, {.split = Split::column});
    layer.laurel.up =
        add_.linear(module + "linear_right", sizes_.hidden, rank, {.split = Split::row});
    layer.laurel_norm = norm(module, "post_laurel_norm");
  }

  MlpSpec mlp(const std::string& module, int64_t index) {
    MlpSpec mlp{.kind = decoder_.mlp_kind,
                .activation = decoder_.activation,
                .intermediate = decoder_.widths.empty()
                                    ? sizes_.intermediate
                                    : decoder_.widths[static_cast<size_t>(index)],
                .gate_factor = decoder_.gate_factor,
                .out_factor = decoder_.mlp_factor,
                .gate_deviations = decoder_.gate_deviations.empty()
                                       ? 0
                                       : decoder_.gate_deviations[static_cast<size_t>(index)]};
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
      rows = Rows::parts(fused, {inner, inner});
    }
    return add_.linear(
        fused, rows, sizes_.hidden,
        {.split = decoder_.mlp_split.value_or(gated ? Split::merged_column : Split::column),
         .bias = decoder_.mlp_bias,
         .bias_kept = decoder_.mlp_bias_kept,
         .interleaved = decoder_.gate_up_cut});
  }

  Linear mlp_down(const std::string& module, int64_t inner) {
    return add_.linear(module + "." + names_.down, sizes_.hidden, inner,
                       {.split = decoder_.mlp_split.value_or(Split::row),
                        .bias = decoder_.mlp_bias || decoder_.down_bias,
                        .bias_kept = decoder_.mlp_bias_kept});
  }

  // `run` takes the four numbers as one vector; vLLM has a parameter for each, which its XIELU
  // makes in bfloat16 whatever the model's dtype is.
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
                .dtype = DType::bf16,
                .kept = Kept::in_vllm,
                .is_buffer = shape.empty()});
    }
    return add_.add(std::move(all));
  }

  static bool is_sparse(const std::optional<Mixture>& mixture, int64_t index) {
    return mixture && mixture->sizes.experts > 0 && mixture->sparse[static_cast<size_t>(index)];
  }

  MlpSpec feed_forward(const std::string& prefix, int64_t index,
                       const std::optional<Mixture>& mixture) {
    if (!is_sparse(mixture, index)) return mlp(prefix + names_.mlp, index);
    MlpSpec experts = mixture->sizes;
    experts.kind = MlpKind::experts;
    experts.activation = decoder_.activation;
    std::vector<MixturePart> parts = mixture->names.order;
    const bool hashed = index < mixture->hashed;
    if (hashed) std::erase(parts, MixturePart::choice_bias);
    add_mixture(spec_, prefix, *mixture, parts, experts);
    if (hashed) {
      const std::string table = prefix + mixture->names.router.engine + ".tid2eid";
      add_.at(add_.parameter(table, {sizes_.vocab, experts.experts_per_token})).dtype = DType::i32;
    }
    return experts;
  }

  AttentionSpec crossed_attention(const std::string& prefix) {
    const std::string module = prefix + "encoder_attn";
    const int64_t inner = sizes_.heads * sizes_.head_dim;
    const LinearLayout cut{.split = Split::column, .bias = decoder_.qkv_bias};
    AttentionSpec attention{
        .heads = sizes_.heads, .kv_heads = sizes_.heads, .head_dim = sizes_.head_dim};
    attention.qkv = add_.linear(module + ".q_proj", inner, sizes_.hidden, cut);
    attention.latent.kv_up =
        add_.linear(module + ".kv_proj",
                    {Rows::all(module + ".k_proj", inner), Rows::all(module + ".v_proj", inner)},
                    sizes_.hidden, {.split = Split::merged_column, .bias = decoder_.qkv_bias});
    attention.out = add_.linear(module + ".out_proj", sizes_.hidden, inner,
                                {.split = Split::row, .bias = decoder_.out_bias});
    return attention;
  }

  AttentionSpec compressed_attention(const std::string& module, int64_t index) {
    const Compressed& compressed = *decoder_.compressed;
    const int64_t heads = sizes_.heads, size = sizes_.head_dim, rank = compressed.q_rank;
    AttentionSpec attention{.heads = heads,
                            .kv_heads = 1,
                            .head_dim = size,
                            .window = compressed.window,
                            .compression = compressed.ratios[static_cast<size_t>(index)]};
    attention.rope = attention.compression > 1 ? 1 : 0;
    attention.sinks = add_.vector(module + ".attn_sink", heads);
    add_.at(attention.sinks).split = Split::column;
    add_.at(attention.sinks).dtype = DType::f32;
    LatentSpec& latent = attention.latent;
    latent.kv_down = add_.linear(
        module + ".fused_wqa_wkv",
        {Rows::all(module + ".wq_a", rank), Rows::all(module + ".wkv", size)}, sizes_.hidden, {});
    latent.q_norm = add_.norm(module + ".q_norm", rank, decoder_.norm);
    latent.kv_norm = add_.norm(module + ".kv_norm", size, decoder_.norm);
    latent.q_up = add_.linear(module + ".wq_b", heads * size, rank, {.split = Split::column});
    const int64_t narrow = compressed.out_groups * compressed.out_rank;
    add_.linear(module + ".wo_a", narrow, heads * size / compressed.out_groups,
                {.split = Split::column});
    attention.out = add_.linear(module + ".wo_b", sizes_.hidden, narrow, {.split = Split::row});
    if (attention.compression == kOverlapped) {
      IndexerSpec& indexer = attention.indexer;
      indexer.heads = compressed.index_heads;
      indexer.head_dim = compressed.index_dim;
      indexer.q_up =
          add_.linear(module + ".indexer.wq_b", indexer.heads * indexer.head_dim, rank, {});
      add_.parameter(module + ".indexer.weights_proj", {indexer.heads, sizes_.hidden});
      add_compressor(module + ".indexer.compressor.", attention.compression, indexer.head_dim);
    }
    if (attention.compression > 1)
      add_compressor(module + ".compressor.", attention.compression, size);
    return attention;
  }

  void add_compressor(const std::string& module, int64_t ratio, int64_t head) {
    const int64_t width = (ratio == kOverlapped ? 2 : 1) * head;
    add_.at(add_.parameter(module + "ape", {ratio, width})).dtype = DType::f32;
    add_.parameter(module + "fused_wkv_wgate", {2 * width, sizes_.hidden});
    add_.norm(module + "norm", head, decoder_.norm);
  }

  AttentionSpec latent_attention(const std::string& module, int64_t index) {
    AttentionSpec attention = decoder_.latent->attention;
    const auto lacks = [index](const std::vector<bool>& layers) {
      return !layers.empty() && !layers[static_cast<size_t>(index)];
    };
    if (lacks(decoder_.latent->chooses)) attention.indexer.heads = 0;
    if (lacks(decoder_.latent->sparse)) attention.indexer = {};
    add_latent(spec_, attention, module, decoder_.latent->modules);
    attention.gate = attention_gate(decoder_, attention.heads, attention.value_dim, module, add_);
    if (decoder_.sinks) {
      attention.sinks = add_.vector(module + "." + names_.sinks, attention.heads);
      add_.at(attention.sinks).split = Split::column;
    }
    return attention;
  }

  const Decoder& decoder_;
  const Sizes& sizes_;
  const DecoderNames& names_;
  ModelSpec& spec_;
  SpecBuilder add_;
  LayerParts parts_;  // of the layer at hand
};

}  // namespace

void add_layers(const Decoder& decoder, ModelSpec& spec) {
  LayersBuilder layers(decoder, spec);
  spec.layers.reserve(static_cast<size_t>(decoder.sizes.layers));
  spec.layers_in_stored = decoder.halves ? 2 : 1;
  for (int64_t i = 0; i < decoder.sizes.layers; ++i) {
    if (decoder.halves) {
      for (LayerSpec& half : layers.halves(i)) spec.layers.push_back(std::move(half));
    } else {
      spec.layers.push_back(layers.layer(i));
    }
  }
}

}  // namespace plimsoll::model
