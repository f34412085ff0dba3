// Steps of few rows: a layer as four products, rope_and_store and attention.
#include <algorithm>

#include "engine/model.h"

namespace plimsoll::engine {

using backend::ProductEnd;
using backend::View;
using memory::Scope;
using model::Activation;
using model::LayerSpec;
using model::Norm;

namespace {

bool is_rms(const Norm& norm) {
  return norm.present && norm.kind == model::NormKind::rms && norm.bias == model::kNoWeight;
}

/// True when q, k and v are one product of the layer's input, and attention's result goes into
/// another product as it is.
bool is_plain(const model::AttentionSpec& spec) {
  const auto adapts = [](const model::Adapter& adapter) {
    return adapter.down.weight != model::kNoWeight;
  };
  return spec.heads > 0 && spec.latent.kv_rank == 0 && spec.value_dim == 0 &&
         spec.indexer.most == 0 && spec.keys_of < 0 && !spec.gates_in_qkv &&
         spec.gate.weight == model::kNoWeight && spec.key_factor == 1 && spec.out_factor == 1 &&
         !adapts(spec.q_adapter) && !adapts(spec.k_adapter) && !adapts(spec.v_adapter);
}

bool is_plain(const model::MlpSpec& mlp) {
  return mlp.kind == model::MlpKind::gated && mlp.gate_factor == 1 && mlp.out_factor == 1 &&
         mlp.gate_deviations == 0 && !mlp.limits.any();
}

/// True when a layer is norm, attention, sum, norm, gated MLP, sum.
bool is_plain(const LayerSpec& layer) {
  return layer.placement == model::NormPlacement::pre && layer.branch_factor == 1 &&
         is_rms(layer.attention_norm) && is_rms(layer.mlp_norm) &&
         !layer.attention_post_norm.present && !layer.mlp_post_norm.present && !layer.recurrent &&
         !layer.input && !layer.shared_block && !layer.streams && !layer.shortcut &&
         !layer.ends_shortcut && layer.factor == model::kNoWeight && is_plain(layer.attention) &&
         is_plain(layer.mlp);
}

}  // namespace

bool has_plain_layers(const model::ModelSpec& spec) {
  const auto is_whole = [&](const model::Linear& linear) {
    const model::WeightSpec& weight = spec.weights[static_cast<size_t>(linear.weight)];
    return weight.ranks == 1 && !weight.is_packed();
  };
  const auto fits = [&](const LayerSpec& layer) {
    return is_plain(layer) && is_whole(layer.attention.qkv) && is_whole(layer.attention.out) &&
           is_whole(layer.mlp.up) && is_whole(layer.mlp.down);
  };
  return spec.streams.count() <= 1 && std::ranges::all_of(spec.layers, fits);
}

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
