// Parts that some layers have beside mixer and MLP: inputs of their own, blocks that layers share.
#include <algorithm>

#include "engine/forward/model.h"
#include "engine/forward/row_slices.h"

namespace plimsoll::engine {

using backend::View;
using memory::Scope;
using model::Activation;

void Model::layer_inputs(const Step& step) {
  const model::LayerInputs& spec = spec_.layer_inputs;
  const Scope scope(backend_.scratch());
  linear(step.inputs, step.residual, spec.projection, Activation::none);
  backend_.run(ops::Scale{step.inputs, spec.projection_factor});
  View layers = step.inputs;  // each a row
  layers.rows *= layers.columns / spec.width;
  layers.columns = layers.stride = spec.width;
  norm(layers, layers, spec.norm);
  const View of_token = take("token's layer inputs", step.inputs.rows, step.inputs.columns);
  look_up(step, spec.table, spec.table_factor, of_token);
  backend_.run(ops::Add{step.inputs, of_token});
  backend_.run(ops::Scale{step.inputs, spec.factor});
}

void Model::layer_input(const model::LayerInput& spec, View input, View x, View out) {
  const Scope scope(backend_.scratch());
  const View gate = take("layer input gate", input.rows, input.columns);
  linear(gate, x, spec.gate, spec.activation);
  backend_.run(ops::MultiplyGates{gate, input, model::GateKind::as_is});
  linear(out, gate, spec.projection, Activation::none);
  norm(out, out, spec.norm);
}

void Model::add_input(const model::LayerInput& spec, View input, View residual) {
  const Scope scope(backend_.scratch());
  const View delta = take("layer input", residual.rows, residual.columns);
  layer_input(spec, input, residual, delta);
  backend_.run(ops::Add{residual, delta});
}

void Model::shared_block(const Step& step, size_t index, View out) {
  const model::SharedBlock& block = *spec_.layers[index].shared_block;
  const Scope scope(backend_.scratch());
  const int64_t hidden = spec_.hidden_size;
  const View attended = take("block attention", out.rows, hidden);
  {
    const Scope inner(backend_.scratch());
    const View wide = take("block input", out.rows, 2 * hidden);
    copy(wide.slice_columns(0, hidden), step.residual);
    copy(wide.slice_columns(hidden, hidden), step.first);
    norm(wide, wide, block.input_norm);
    attention(step, index, wide, attended);
  }
  norm(attended, attended, block.mlp_norm);
  for_row_slices(out.rows, backend_.scratch(), [&](int64_t first, int64_t count) {
    const Scope inner(backend_.scratch());
    const View fed = take("block mlp", count, hidden);
    gated({.intermediate = block.mlp.intermediate,
           .activation = block.mlp.activation,
           .up = block.mlp.up,
           .down = block.mlp.down,
           .adapter = block.adapter},
          attended.slice_rows(first, count), fed);
    linear(out.slice_rows(first, count), fed, block.out, Activation::none);
  });
  backend_.run(ops::Add{out, step.residual});
}

void Model::adapt(View out, View in, const model::Adapter& adapter) {
  if (adapter.down.weight == model::kNoWeight) return;
  const Scope scope(backend_.scratch());
  const View low = take("adapter", in.rows, weight(adapter.down.weight).spec->rows());
  linear(low, in, adapter.down, Activation::none);
  const View change = take("adapter's change", out.rows, out.columns);
  linear(change, low, adapter.up, Activation::none);
  backend_.run(ops::Add{out, change});
}

}  // namespace plimsoll::engine
