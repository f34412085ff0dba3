// Steps of few rows: a layer as four products, rope_and_store and attention.
#include "engine/forward/model.h"

namespace plimsoll::engine {

using backend::ProductEnd;
using backend::View;
using memory::Scope;
using model::Activation;
using model::LayerSpec;
using model::Norm;

bool Model::fuses(int64_t tokens) const {
  return has_plain_layers_ && tokens <= backend_.footprint().fused_rows();
}

void Model::fused_linear(View out, View in, const model::Linear& linear, const Norm& norm,
                         ProductEnd end, Activation activation) {
  backend_.run(ops::FusedLinear{.out = out,
                                .in = in,
                                .weight = weight(linear.weight),
                                .bias = weight(linear.bias),
                                .norm = norm,
                                .norm_weight = weight(norm.weight),
                                .end = end,
                                .activation = activation});
}

void Model::fused_layer(Step& step, size_t index, View hidden) {
  const LayerSpec& layer = spec_.layers[index];
  const model::AttentionSpec& spec = layer.attention;
  const Scope scope(backend_.scratch());
  {
    const Scope inner(backend_.scratch());
    const int64_t columns = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
    const View qkv = take("qkv", step.residual.rows, columns);
    fused_linear(qkv, step.residual, spec.qkv, layer.attention_norm, ProductEnd::stored);
    if (is_last(layer)) keep_wanted_residual(step, hidden);
    const View attended = wanted_rows(step, attend(step, index, qkv));
    fused_linear(step.residual, attended, spec.out, {}, ProductEnd::added);
  }
  const View activated = take("mlp activated", step.residual.rows, layer.mlp.intermediate);
  fused_linear(activated, step.residual, layer.mlp.up, layer.mlp_norm, ProductEnd::gated,
               layer.mlp.activation);
  fused_linear(step.residual, activated, layer.mlp.down, {}, ProductEnd::added);
}

}  // namespace plimsoll::engine
