// A layer of the forward pass. One of Llama's takes the shortest way: norm, attention, sum and
// norm, gated MLP, sum and the next layer's norm.
#include "engine/forward/model.h"
#include "engine/forward/row_slices.h"

namespace plimsoll::engine {

using backend::View;
using memory::Scope;
using model::LayerSpec;
using model::MlpKind;
using model::NormPlacement;

void Model::layer(Step& step, size_t index, View hidden) {
  const LayerSpec& layer = spec_.layers[index];
  const LayerEnds& ends = ends_[index];
  const Scope scope(backend_.scratch());
  const View input = mixer_input(step, index);
  if (is_last(layer)) keep_wanted(step, layer, hidden);
  const model::Norm* const next = next_norm(index);
  const Sum mixed = sum_before(ends.norms_mixed ? &layer.mlp_norm : nullptr, layer.attention.out);
  const Sum fed = sum_before(ends.sums_product ? next : nullptr, layer.mlp.down);
  mix(step, index, input, step.delta, mixed);
  for_row_slices(step.delta.rows, backend_.scratch(), [&](int64_t first, int64_t count) {
    LayerRows rows{.residual = step.residual.slice_rows(first, count),
                   .delta = step.delta.slice_rows(first, count),
                   .next_norm = next,
                   .mixed = mixed,
                   .fed = fed};
    if (layer.shortcut || layer.ends_shortcut) {
      rows.shortcut = step.shortcut.slice_rows(first, count);
    }
    if (layer.input) rows.input = layer_inputs_of(step, index).slice_rows(first, count);
    finish_rows(layer, rows);
  });
}

void Model::finish_rows(const LayerSpec& layer, const LayerRows& rows) {
  const bool mixes = layer.has_attention() || layer.recurrent;
  const bool branches =
      layer.placement == NormPlacement::pre || layer.placement == NormPlacement::sandwich;
  if (mixes && branches && layer.mlp.kind != MlpKind::none) {
    add_branches(layer, rows);
  } else {
    finish_otherwise(layer, rows);
  }
  if (layer.input) add_input(*layer.input, rows.input, rows.residual);
  if (layer.factor != model::kNoWeight) {
    backend_.run(ops::MultiplyFactors{rows.residual, weight(layer.factor)});
  }
}

void Model::add_branches(const LayerSpec& layer, const LayerRows& rows) {
  const View residual = rows.residual;
  const View delta = rows.delta;
  if (layer.attention_post_norm.present) norm(delta, delta, layer.attention_post_norm);
  if (layer.branch_factor != 1) backend_.run(ops::Scale{delta, layer.branch_factor});
  if (layer.mlp_norm.present) {
    const Scope scope(backend_.scratch());
    const View input = take("mlp in", delta.rows, delta.columns);
    add_norm(input, residual, delta, layer.mlp_norm, rows.mixed);
    if (layer.shortcut) experts(*layer.shortcut, {input, residual}, rows.shortcut);
    feed_forward(layer.mlp, {input, residual}, delta, rows.fed);
  } else {
    backend_.run(ops::Add{residual, delta});
    feed_forward(layer.mlp, {residual, residual}, delta, rows.fed);
  }
  if (layer.mlp_post_norm.present) norm(delta, delta, layer.mlp_post_norm);
  add_branch(layer, residual, delta, rows.next_norm, rows.fed);
  if (layer.ends_shortcut) backend_.run(ops::Add{residual, rows.shortcut});
}

void Model::add_branch(const LayerSpec& layer, View residual, View delta, const model::Norm* next,
                       Sum sum) {
  if (layer.branch_factor != 1) backend_.run(ops::Scale{delta, layer.branch_factor});
  if (next == nullptr) return backend_.run(ops::Add{residual, delta});
  add_norm(delta, residual, delta, *next, sum);
}

const model::Norm* Model::next_norm(size_t index) const {
  if (index + 1 == spec_.layers.size()) return nullptr;
  const bool joins = ends_[index].ends_by_sum && ends_[index + 1].begins_by_norm;
  return joins ? &spec_.layers[index + 1].attention_norm : nullptr;
}

// Drops the rows that are not wanted: of them only K and V are still needed.
void Model::keep_wanted_residual(Step& step, View hidden) {
  backend_.run(ops::GatherRows{hidden, step.residual, step.batch});
  step.residual = hidden;
  step.gathered = true;
}

void Model::keep_wanted(Step& step, const LayerSpec& layer, View hidden) {
  keep_wanted_residual(step, hidden);
  const auto keep = [&](std::string_view name, View& rows) {
    const View wanted = take(name, hidden.rows, rows.columns);
    backend_.run(ops::GatherRows{wanted, rows, step.batch});
    rows = wanted;
  };
  if (layer.ends_shortcut) keep("shortcut rows", step.shortcut);
  if (layer.input) keep("layer input rows", step.inputs);
  step.delta = step.delta.slice_rows(0, hidden.rows);
}

View Model::mixer_input(const Step& step, size_t index) {
  const LayerSpec& layer = spec_.layers[index];
  const View delta = step.delta;
  if (index > 0 && next_norm(index - 1) != nullptr) return delta;
  if (layer.shared_block) {
    shared_block(step, index, delta);
    norm(delta, delta, layer.attention_norm);
    return delta;
  }
  if (layer.placement == NormPlacement::residual) {
    norm(step.residual, step.residual, layer.attention_norm);
    return step.residual;
  }
  if (layer.placement == NormPlacement::post || !layer.attention_norm.present) {
    return step.residual;
  }
  norm(delta, step.residual, layer.attention_norm);
  return delta;
}

void Model::blend(const model::Blend& blend, View residual, View delta) {
  if (blend.alpha != 1) backend_.run(ops::Scale{residual, blend.alpha});
  if (blend.beta != 1) backend_.run(ops::Scale{delta, blend.beta});
  backend_.run(ops::Add{residual, delta});
}

void Model::finish_otherwise(const LayerSpec& layer, const LayerRows& rows) {
  const View residual = rows.residual;
  const View delta = rows.delta;
  const auto feed = [&](View in) { feed_forward(layer.mlp, {in, residual}, delta); };
  if (layer.mlp.kind == MlpKind::none) return add_branch(layer, residual, delta, rows.next_norm);
  const bool mixes = layer.has_attention() || layer.recurrent;  // else delta is empty yet
  if (layer.placement == NormPlacement::parallel || !mixes) {
    const Scope scope(backend_.scratch());
    const View input = take("mlp in", delta.rows, delta.columns);
    norm(input, residual, layer.mlp_norm);
    if (mixes) add_branch(layer, residual, delta);
    feed(input);
    return add_branch(layer, residual, delta, rows.next_norm);
  }
  if (layer.placement == NormPlacement::residual) {
    blend(layer.attention_blend, residual, delta);
    norm(residual, residual, layer.mlp_norm);
    feed(residual);
    return blend(layer.mlp_blend, residual, delta);
  }
  add_branch(layer, residual, delta);
  norm(residual, residual, layer.attention_norm);
  feed(residual);
  add_branch(layer, residual, delta);
  norm(residual, residual, layer.mlp_norm);
}

}  // namespace plimsoll::engine
