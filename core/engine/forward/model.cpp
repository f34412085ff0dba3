#include "engine/forward/model.h"

#include <algorithm>

namespace plimsoll::engine {

using backend::BatchMeta;
using backend::View;
using memory::Scope;
using model::Activation;
using model::LayerSpec;

namespace {

/// Rows without gaps.
std::span<std::byte> bytes_of(View view) {
  return {static_cast<std::byte*>(view.data), view.bytes()};
}

}  // namespace

bool Model::is_last(const LayerSpec& layer) const {
  return has_head() && &layer == &spec_.layers.back();
}

View Model::forward(const BatchMeta& batch) {
  const auto tokens = static_cast<int64_t>(batch.token_ids.size());
  const auto rows = has_head() ? static_cast<int64_t>(batch.logits_rows.size()) : 0;
  const View hidden = take("hidden rows", rows, spec_.hidden_size);
  View result = hidden;
  if (spec_.embedding_out != model::kNoWeight) {
    result = take("projected rows", rows, weight(spec_.embedding_out).spec->rows());
  }
  const Scope scope(backend_.scratch());
  Step step{batch, is_whole() ? take("residual", tokens, spec_.hidden_size) : handed_rows(tokens)};
  const auto has_shortcut = [](const LayerSpec& layer) { return layer.shortcut.has_value(); };
  if (std::ranges::any_of(spec_.layers, has_shortcut)) {
    step.shortcut = take("shortcut", tokens, spec_.hidden_size);
  }
  if (has_embedding()) begin(step);
  if (spec_.shares_blocks()) {
    step.first = take("first input", tokens, spec_.hidden_size);
    copy(step.first, step.residual);
  }
  step.chosen = take_choice(batch);
  if (spec_.layer_inputs.width > 0) {
    const int64_t columns = std::ssize(spec_.layers) * spec_.layer_inputs.width;
    step.inputs = take("layer inputs", tokens, columns);
    layer_inputs(step);
  }
  for (size_t i = 0; i < spec_.ropes.size(); ++i) {
    angles_[i] = take("rope angles", tokens, spec_.ropes[i].rotary_dim, DType::f32);
    backend_.run(ops::RopeAngles{angles_[i], spec_.ropes[i], batch});
  }
  if (spec_.streams.count() > 1) {
    stream_layers(step, hidden);
  } else if (fuses(tokens)) {
    for (size_t i = 0; i < spec_.layers.size(); ++i) fused_layer(step, i, hidden);
  } else {
    step.delta = take("delta", tokens, spec_.hidden_size);
    for (size_t i = 0; i < spec_.layers.size(); ++i) layer(step, i, hidden);
  }
  if (!has_head()) return hidden;
  if (spec_.final_norm.present) norm(hidden, hidden, spec_.final_norm);
  if (spec_.embedding_out != model::kNoWeight) {
    linear(result, hidden, {.weight = spec_.embedding_out}, Activation::none);
  }
  return result;
}

void Model::receive(int64_t tokens) {
  ranks_->receive(rank_ - stage_ranks(), bytes_of(handed_rows(tokens)));
}

void Model::send_hidden(int64_t tokens) {
  backend_.synchronize();
  ranks_->send(rank_ + stage_ranks(), bytes_of(handed_rows(tokens)));
}

void Model::begin(const Step& step) {
  embed(step);
  if (spec_.embedding_norm.present) norm(step.residual, step.residual, spec_.embedding_norm);
}

void Model::embed(const Step& step) {
  const Scope scope(backend_.scratch());
  if (spec_.embedding_in == model::kNoWeight) {
    look_up(step, spec_.embedding, spec_.embedding_scale, step.residual);
  } else {
    const View narrow =
        take("embedding", step.residual.rows, weight(spec_.embedding).spec->columns());
    look_up(step, spec_.embedding, spec_.embedding_scale, narrow);
    linear(step.residual, narrow, {.weight = spec_.embedding_in}, Activation::none);
  }
  if (!step.batch.embedded_rows.empty()) {
    backend_.run(ops::PlaceEmbeddings{step.residual, step.batch});
  }
  if (spec_.position_embedding == model::kNoWeight) return;
  backend_.run(ops::EmbedPositions{step.residual, weight(spec_.position_embedding), step.batch,
                                   spec_.position_offset});
}

void Model::attention(const Step& step, size_t index, View input, View out, Sum sum) {
  const LayerSpec& layer = spec_.layers[index];
  const model::AttentionSpec& spec = layer.attention;
  const Scope scope(backend_.scratch());
  const int64_t q = spec.heads * spec.head_dim;
  const int64_t kv = spec.keys_of >= 0 ? 0 : spec.kv_heads * spec.head_dim;
  const int64_t gate_columns = spec.gates_in_qkv ? q : 0;
  const View product = take("qkv", input.rows, gate_columns + q + 2 * kv);
  const View qkv = product.slice_columns(gate_columns, q + 2 * kv);
  if (spec.latent.kv_rank > 0) {
    expand_latents(step, index, input, qkv);
  } else if (spec.value_dim > 0) {
    widen_values(spec, input, qkv);
  } else {
    linear(product, input, spec.qkv, Activation::none);
    adapt(qkv.slice_columns(0, q), input, spec.q_adapter);
    adapt(qkv.slice_columns(q, kv), input, spec.k_adapter);
    adapt(qkv.slice_columns(q + kv, kv), input, spec.v_adapter);
  }
  if (spec.key_factor != 1) backend_.run(ops::Scale{qkv.slice_columns(q, kv), spec.key_factor});
  View attended = attend(step, index, qkv);
  if (spec.gates_in_qkv) {
    backend_.run(ops::MultiplyGates{attended, product.slice_columns(0, q), spec.gate_kind});
  }
  if (spec.value_dim > 0) attended = narrow_values(spec, attended);
  if (spec.gate.weight != model::kNoWeight) {
    const View gates = take("attention gates", input.rows, weight(spec.gate.weight).spec->rows());
    linear(gates, input, spec.gate, Activation::none);
    backend_.run(ops::MultiplyGates{attended, gates, spec.gate_kind});
  }
  linear(out, wanted_rows(step, attended), spec.out, Activation::none, sum);
  if (spec.out_factor != 1) backend_.run(ops::Scale{out, spec.out_factor});
}

View Model::attend(const Step& step, size_t index, View qkv) {
  const model::AttentionSpec& spec = spec_.layers[index].attention;
  model::AttentionSpec stored = spec;  // what the layer gives the cache
  if (spec.keys_of >= 0) stored.kv_heads = 0;
  const int64_t q = spec.heads * spec.head_dim, kv = stored.kv_heads * spec.head_dim;
  const View angles = spec.rope < 0 ? View{} : angles_[spec.rope];
  if (spec.norm_span == model::NormSpan::all_heads && weight(spec.out.weight).spec->ranks > 1) {
    if (spec.q_norm.present) norm_across(qkv.slice_columns(0, q), spec.q_norm, 1);
    if (spec.k_norm.present) norm_across(qkv.slice_columns(q, kv), spec.k_norm, 1);
    stored.q_norm = stored.k_norm = {};
  }
  const backend::HeadNorms norms{weight(stored.q_norm.weight), weight(stored.q_norm.bias),  //
                                 weight(stored.k_norm.weight), weight(stored.k_norm.bias)};
  backend_.run(ops::RopeAndStore{qkv, angles, stored, norms, caches_[index], step.batch});
  const View attended = take("attended", qkv.rows, spec.heads * spec.head_dim);
  const backend::ScoreTerms terms{.sinks = weight(spec.sinks),
                                  .slopes = weight(spec.alibi.slopes),
                                  .chosen = spec.indexer.most > 0 ? step.chosen : View{}};
  backend_.run(ops::Attention{attended, qkv, spec, terms, caches_[index], step.batch});
  return attended;
}

View Model::wanted_rows(const Step& step, View mixed) {
  if (!step.gathered) return mixed;
  const View wanted = take("mixed rows", step.residual.rows, mixed.columns);
  backend_.run(ops::GatherRows{wanted, mixed, step.batch});
  return wanted;
}

}  // namespace plimsoll::engine
