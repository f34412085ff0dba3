// Layers whose mixer carries a state from token to token.
#include "engine/forward/model.h"

namespace plimsoll::engine {

using backend::View;
using memory::Scope;
using model::Activation;
using model::GateKind;
using model::RecurrentKind;
using model::RecurrentSpec;

void Model::mix(const Step& step, size_t index, View input, View out, Sum sum) {
  const model::LayerSpec& layer = spec_.layers[index];
  if (!layer.recurrent) {
    if (layer.has_attention()) attention(step, index, input, out, sum);
    return;
  }
  const bool beside_it = layer.has_attention() && !layer.shared_block;
  if (!beside_it) return recurrent(step, index, input, out);
  // The input is used nowhere else: it takes one mixer's factor, then the other's.
  const Scope scope(backend_.scratch());
  const View beside = take("attention beside", out.rows, out.columns);
  const float in_factor = layer.attention.in_factor;
  if (in_factor != 1) backend_.run(ops::Scale{input, in_factor});
  attention(step, index, input, beside);
  const float other = layer.recurrent->in_factor / in_factor;
  if (other != 1) backend_.run(ops::Scale{input, other});
  recurrent(step, index, input, out);
  if (layer.recurrent->out_factor != 1) backend_.run(ops::Scale{out, layer.recurrent->out_factor});
  backend_.run(ops::Add{out, beside});
}

void Model::recurrent(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const Scope scope(backend_.scratch());
  switch (spec.kind) {
    case RecurrentKind::short_conv:
      return short_conv(step, index, input, out);
    case RecurrentKind::mamba1:
      return mamba1(step, index, input, out);
    case RecurrentKind::mamba2:
      return mamba2(step, index, input, out);
    case RecurrentKind::gated_delta:
      return gated_delta(step, index, input, out);
    case RecurrentKind::channel_delta:
      return channel_delta(step, index, input, out);
    case RecurrentKind::linear:
      return linear_attention(step, index, input, out);
    case RecurrentKind::gated_linear:
      return gated_linear(step, index, input, out);
  }
}

void Model::convolve(const Step& step, size_t index, View out, View in) {
  const model::ConvSpec& conv = spec_.layers[index].recurrent->conv;
  backend_.run(ops::Convolve{out, in, conv, weight(conv.weight), weight(conv.bias),
                             conv_states_[index], step.batch});
}

// [b; c; u]
void Model::short_conv(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.conv.width;
  const View projected = take("projected", input.rows, 3 * width);
  linear(projected, input, spec.in, Activation::none);
  const View b = projected.slice_columns(0, width), c = projected.slice_columns(width, width);
  const View u = projected.slice_columns(2 * width, width);
  backend_.run(ops::MultiplyGates{u, b, GateKind::as_is});
  const View mixed = take("convolved", input.rows, width);
  convolve(step, index, mixed, u);
  backend_.run(ops::MultiplyGates{mixed, c, GateKind::as_is});
  linear(out, wanted_rows(step, mixed), spec.out, Activation::none);
}

// [u; z], then of u [step; b; c]
void Model::mamba1(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.width();
  const View projected = take("projected", input.rows, 2 * width);
  linear(projected, input, spec.in, Activation::none);
  const View u = take("convolved", input.rows, width);
  convolve(step, index, u, projected.slice_columns(0, width));
  const View chosen = take("step, b and c", input.rows, spec.rank + 2 * spec.state);
  linear(chosen, u, spec.choose, Activation::none);
  const View rank = chosen.slice_columns(0, spec.rank);
  const View b = chosen.slice_columns(spec.rank, spec.state);
  const View c = chosen.slice_columns(spec.rank + spec.state, spec.state);
  if (spec.step_norm.present) norm(rank, rank, spec.step_norm);
  if (spec.b_norm.present) norm(b, b, spec.b_norm);
  if (spec.c_norm.present) norm(c, c, spec.c_norm);
  const View steps = take("steps", input.rows, spec.heads);
  linear(steps, rank, spec.step, Activation::none);
  const View mixed = take("mixed", input.rows, width);
  backend_.run(ops::SelectiveScan{mixed,
                                  {u, steps, b, c},
                                  spec,
                                  {weight(spec.decay), weight(spec.skip), weight(spec.step_bias)},
                                  states_[index],
                                  step.batch});
  backend_.run(ops::MultiplyGates{mixed, projected.slice_columns(width, width), GateKind::silu});
  linear(out, wanted_rows(step, mixed), spec.out, Activation::none);
}

// [z; u; b; c; step], of which u, b and c go through the convolution together
void Model::mamba2(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.width(), shared = spec.groups * spec.state;
  const View projected = take("projected", input.rows, width + spec.conv.width + spec.heads);
  linear(projected, input, spec.in, Activation::none);
  int64_t column = 0;
  const int64_t columns[] = {width, width, shared, shared, spec.heads};
  for (size_t i = 0; i < spec.factors.size(); column += columns[i++]) {
    backend_.run(ops::Scale{projected.slice_columns(column, columns[i]), spec.factors[i]});
  }
  const View z = projected.slice_columns(0, width);
  const View convolved = take("convolved", input.rows, spec.conv.width);
  convolve(step, index, convolved, projected.slice_columns(width, spec.conv.width));
  const View mixed = take("mixed", input.rows, width);
  backend_.run(ops::SelectiveScan{
      mixed,
      {convolved.slice_columns(0, width),
       projected.slice_columns(width + spec.conv.width, spec.heads),
       convolved.slice_columns(width, shared), convolved.slice_columns(width + shared, shared)},
      spec,
      {weight(spec.decay), weight(spec.skip), weight(spec.step_bias)},
      states_[index],
      step.batch});
  gate_and_norm(spec, mixed, z);
  linear(out, wanted_rows(step, mixed), spec.out, Activation::none);
}

// [q; k; v; z] and [beta; step], of which q, k and v go through the convolution together
void Model::gated_delta(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.width(), keys = spec.groups * spec.state;
  const View projected = take("projected", input.rows, spec.conv.width + width);
  linear(projected, input, spec.in, Activation::none);
  const View steps = take("steps", input.rows, 2 * spec.heads);
  linear(steps, input, spec.steps, Activation::none);
  const View convolved = take("convolved", input.rows, spec.conv.width);
  convolve(step, index, convolved, projected.slice_columns(0, spec.conv.width));
  const View mixed = take("mixed", input.rows, width);
  backend_.run(
      ops::GatedDelta{mixed,
                      {convolved.slice_columns(0, keys), convolved.slice_columns(keys, keys),
                       convolved.slice_columns(2 * keys, width), steps.slice_columns(0, spec.heads),
                       steps.slice_columns(spec.heads, spec.heads)},
                      spec,
                      {weight(spec.decay), weight(spec.step_bias)},
                      states_[index],
                      step.batch});
  gate_and_norm(spec, mixed, projected.slice_columns(spec.conv.width, width));
  linear(out, wanted_rows(step, mixed), spec.out, Activation::none);
}

// [q; k; v; beta; step's], of which q, k and v go through the convolution together
void Model::channel_delta(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.width(), keys = spec.groups * spec.state;
  const int64_t mixed_columns = spec.conv.width;
  const View projected = take("projected", input.rows, weight(spec.in.weight).spec->rows());
  linear(projected, input, spec.in, Activation::none);
  const View steps = take("steps", input.rows, keys);
  View low = projected.slice_columns(mixed_columns + spec.heads,
                                     projected.columns - mixed_columns - spec.heads);
  if (low.columns < spec.rank) {  // others have the rest
    const View all = take("columns of all ranks", input.rows, spec.rank);
    share_columns(low, all);
    low = all;
  }
  linear(steps, low, spec.step, Activation::none);
  const View convolved = take("convolved", input.rows, mixed_columns);
  convolve(step, index, convolved, projected.slice_columns(0, mixed_columns));
  const View mixed = take("mixed", input.rows, width);
  backend_.run(
      ops::GatedDelta{mixed,
                      {convolved.slice_columns(0, keys), convolved.slice_columns(keys, keys),
                       convolved.slice_columns(2 * keys, width),
                       projected.slice_columns(mixed_columns, spec.heads), steps},
                      spec,
                      {weight(spec.decay), weight(spec.step_bias)},
                      states_[index],
                      step.batch});
  gate_and_norm(spec, mixed, output_gate(spec, input));
  linear(out, wanted_rows(step, mixed), spec.out, Activation::none);
}

// [q; k; v]
void Model::linear_attention(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.width(), keys = spec.groups * spec.state;
  const View qkv = take("projected", input.rows, 2 * keys + width);
  linear(qkv, input, spec.in, Activation::silu);
  const View mixed = take("mixed", input.rows, width);
  backend_.run(ops::SelectiveScan{mixed,
                                  {qkv.slice_columns(2 * keys, width),
                                   {},
                                   qkv.slice_columns(keys, keys),
                                   qkv.slice_columns(0, keys)},
                                  spec,
                                  {.decay = weight(spec.decay)},
                                  states_[index],
                                  step.batch});
  gate_and_norm(spec, mixed, output_gate(spec, input));
  linear(out, wanted_rows(step, mixed), spec.out, Activation::none);
}

void Model::gated_linear(const Step& step, size_t index, View input, View out) {
  const RecurrentSpec& spec = *spec_.layers[index].recurrent;
  const int64_t width = spec.width(), head = spec.head_dim;
  const View y = take("output gate", input.rows, width);
  linear(y, input, spec.gate_up, Activation::gelu_tanh);
  const View x = take("projected", input.rows, width), u = take("convolved", input.rows, width);
  linear(x, input, spec.in, Activation::none);
  convolve(step, index, u, x);
  const View gates = take("head gates", input.rows, 2 * width);
  const int64_t first_head = tensor_ == nullptr ? 0 : tensor_->rank() * spec.heads;
  for (int64_t h = 0; h < spec.heads; ++h) {
    linear(gates.slice_columns(2 * head * h, 2 * head), u.slice_columns(head * h, head),
           spec.head_gates[first_head + h], Activation::none);
  }
  backend_.run(
      ops::LinearRecurrence{x, {u, gates}, spec, weight(spec.decay), states_[index], step.batch});
  backend_.run(ops::MultiplyGates{x, y, GateKind::as_is});
  linear(out, wanted_rows(step, x), spec.out, Activation::none);
}

View Model::output_gate(const RecurrentSpec& spec, View input) {
  const View z = take("output gate", input.rows, spec.width());
  View in = input;
  if (spec.gate_down.weight != model::kNoWeight) {
    in = take("gate's latent", input.rows, weight(spec.gate_down.weight).spec->rows());
    linear(in, input, spec.gate_down, Activation::none);
  }
  linear(z, in, spec.gate_up, Activation::none);
  return z;
}

void Model::gate_and_norm(const RecurrentSpec& spec, View x, View z) {
  using Gated = RecurrentSpec::Gated;
  if (spec.gated == Gated::before_norm) backend_.run(ops::MultiplyGates{x, z, spec.gate});
  if (spec.norm.present) norm_across(x, spec.norm, spec.norm_groups);
  if (spec.gated == Gated::after_norm) backend_.run(ops::MultiplyGates{x, z, spec.gate});
}

}  // namespace plimsoll::engine
