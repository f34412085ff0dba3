// Models with several residuals (AltUp), which stand side by side in the columns of one matrix.
#include <algorithm>
#include <cmath>

#include "engine/forward/model.h"
#include "engine/forward/row_slices.h"

namespace plimsoll::engine {

using backend::View;
using memory::Scope;
using model::Activation;
using model::GateKind;
using model::StreamLayer;

void Model::stream_layers(Step& step, View hidden) {
  const Scope scope(backend_.scratch());
  const int64_t n = spec_.streams.count(), width = spec_.hidden_size;
  const View streams = take("streams", step.residual.rows, n * width);
  copy(streams, step.residual);
  for (int64_t i = 1; i < n; ++i) {
    const View stream = streams.slice_columns(i * width, width);
    linear(stream, step.residual, spec_.streams.in[i - 1], Activation::none);
    backend_.run(ops::MatchSize{stream, step.residual});
  }
  for (size_t i = 0; i < spec_.layers.size(); ++i) stream_layer(step, i, streams);
  const View first = streams.slice_columns(0, width);
  copy(step.residual, first);
  for (int64_t i = 1; i < n; ++i) {
    const Scope inner(backend_.scratch());
    const View stream = take("stream's end", step.residual.rows, width);
    linear(stream, streams.slice_columns(i * width, width), spec_.streams.out[i - 1],
           Activation::none);
    backend_.run(ops::MatchSize{stream, first});
    backend_.run(ops::Add{step.residual, stream});
  }
  backend_.run(ops::Scale{step.residual, 1.f / static_cast<float>(n)});
  backend_.run(ops::GatherRows{hidden, step.residual, step.batch});
}

void Model::stream_layer(const Step& step, size_t index, View streams) {
  const model::LayerSpec& layer = spec_.layers[index];
  const int64_t width = spec_.hidden_size;
  const Scope scope(backend_.scratch());
  const View predicted = take("predicted streams", streams.rows, streams.columns);
  predict_streams(*layer.streams, streams, predicted);
  copy(streams, predicted);
  const View made = take("layer's result", streams.rows, width);
  run_branches(step, index, streams.slice_columns(0, width), made);
  correct_streams(*layer.streams, made, streams);
  const View first = take("first stream", streams.rows, width);
  copy(first, streams.slice_columns(0, width));
  backend_.run(ops::ScaleColumns{first, weight(layer.streams->input_scale)});
  layer_input(*layer.input, layer_inputs_of(step, index), first, made);
  for (int64_t i = 1; i < spec_.streams.count(); ++i) {
    backend_.run(ops::Add{streams.slice_columns(i * width, width), made});
  }
}

void Model::route_streams(const StreamLayer& spec, View x, View out) {
  const Scope scope(backend_.scratch());
  const View normed = take("router in", x.rows, x.columns);
  norm(normed, x, spec.norm);
  linear(out, normed, spec.router, Activation::none);
  backend_.run(ops::Scale{out, 1.f / static_cast<float>(spec_.hidden_size)});
  backend_.run(ops::SoftCap{out, 1});  // tanh
}

void Model::predict_streams(const StreamLayer& spec, View streams, View out) {
  const Scope scope(backend_.scratch());
  const int64_t n = spec_.streams.count(), width = spec_.hidden_size;
  const View routed = take("stream router", streams.rows, n);
  route_streams(spec, streams.slice_columns(0, width), routed);
  const View factors = take("stream factors", streams.rows, n * n);
  linear(factors, routed, spec.predict, Activation::none);
  copy(out, streams);
  const View share = take("a stream's share", streams.rows, n * width);
  for (int64_t k = 0; k < n; ++k) {
    // The share of stream k in each stream i: factor [i, k].
    backend_.run(ops::CopyHeads{
        routed, factors, {.heads = n, .width = 1, .from = k, .from_stride = n, .to_stride = 1}});
    backend_.run(ops::CopyHeads{
        share, streams, {.heads = n, .width = width, .from = k * width, .to_stride = width}});
    backend_.run(ops::MultiplyGates{share, routed, GateKind::as_is});
    backend_.run(ops::Add{out, share});
  }
}

void Model::run_branches(const Step& step, size_t index, View x, View out) {
  const model::LayerSpec& layer = spec_.layers[index];
  const StreamLayer& spec = *layer.streams;
  {
    const Scope scope(backend_.scratch());
    const View normed = take("layer in", x.rows, x.columns);
    norm(normed, x, layer.attention_norm);
    attention(step, index, normed, out);
    norm(out, out, layer.attention_post_norm);
    backend_.run(ops::Add{out, x});
    backend_.run(ops::Add{out, normed});
    const View low = take("laurel", x.rows, weight(spec.laurel.down.weight).spec->rows());
    linear(low, normed, spec.laurel.down, Activation::none);
    linear(normed, low, spec.laurel.up, Activation::none);
    norm(normed, normed, spec.laurel_norm);
    backend_.run(ops::Add{out, normed});
    backend_.run(ops::Scale{out, std::sqrt(0.5f)});
  }
  for_row_slices(x.rows, backend_.scratch(), [&](int64_t first, int64_t count) {
    const Scope scope(backend_.scratch());
    const View rows = out.slice_rows(first, count);
    const View in = take("mlp in", count, x.columns), delta = take("delta", count, x.columns);
    norm(in, rows, layer.mlp_norm);
    feed_forward(layer.mlp, {in, rows}, delta);
    norm(delta, delta, layer.mlp_post_norm);
    backend_.run(ops::Add{rows, delta});
  });
}

void Model::correct_streams(const StreamLayer& spec, View made, View streams) {
  const Scope scope(backend_.scratch());
  const int64_t n = spec_.streams.count(), width = spec_.hidden_size;
  const View routed = take("stream router", streams.rows, n),
             factors = take("stream factors", streams.rows, n);
  route_streams(spec, made, routed);
  linear(factors, routed, spec.correct, Activation::none);
  const View news = take("news", streams.rows, width);  // f - P_0
  copy(news, streams.slice_columns(0, width));
  backend_.run(ops::Scale{news, -1});
  backend_.run(ops::Add{news, made});
  const View share = take("streams' news", streams.rows, n * width);
  backend_.run(ops::CopyHeads{share, news, {.heads = n, .width = width, .to_stride = width}});
  backend_.run(ops::Add{streams, share});
  backend_.run(ops::MultiplyGates{share, factors, GateKind::as_is});
  backend_.run(ops::Add{streams, share});
}

}  // namespace plimsoll::engine
