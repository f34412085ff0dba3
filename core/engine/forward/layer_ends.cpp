#include "engine/forward/layer_ends.h"

#include <algorithm>

namespace plimsoll::engine {
namespace {

using model::MlpKind;
using model::NormPlacement;
using Attention = model::AttentionSpec;
using Layer = model::LayerSpec;
using Mlp = model::MlpSpec;

/// A spec with some fields as they are by default.
template <typename Spec, typename... Fields>
Spec without(Spec spec, Fields Spec::*... fields) {
  ((spec.*fields = Spec{}.*fields), ...);
  return spec;
}

/// Without what stands between one product for q, k and v and another for the output: what
/// ops::RopeAndStore and ops::Attention do, and vLLM's names.
Attention without_inside(const Attention& spec) {
  using A = Attention;
  return without(spec, &A::heads, &A::kv_heads, &A::head_dim, &A::whole_group, &A::scale,
                 &A::key_scale, &A::value_scale, &A::soft_cap, &A::window, &A::window_kind,
                 &A::rope, &A::rope_pairs, &A::clamp, &A::q_norm, &A::k_norm, &A::v_norm,
                 &A::norm_span, &A::norm_order, &A::query_growth, &A::alibi, &A::sinks, &A::qkv,
                 &A::out, &A::scales_after, &A::lists_scales, &A::scales_before);
}

bool is_plain(const Attention& spec) {
  return spec.heads > 0 && without_inside(spec) == Attention{};
}

bool ends_by_product(const Attention& spec) {
  using A = Attention;
  return spec.heads > 0 &&
         without(without_inside(spec), &A::has_values, &A::value_dim, &A::value_factor, &A::latent,
                 &A::indexer, &A::q_adapter, &A::k_adapter, &A::v_adapter, &A::keys_of,
                 &A::gates_in_qkv, &A::in_factor, &A::key_factor, &A::gate,
                 &A::gate_kind) == Attention{};
}

Mlp without_products(const Mlp& mlp) {
  return without(mlp, &Mlp::kind, &Mlp::activation, &Mlp::intermediate, &Mlp::up, &Mlp::down);
}

bool is_plain(const Mlp& mlp) {
  return mlp.kind == MlpKind::gated && without_products(mlp) == Mlp{};
}

bool ends_by_product(const Mlp& mlp) {
  const bool is_dense = mlp.kind == MlpKind::gated || mlp.kind == MlpKind::plain;
  return is_dense && without(without_products(mlp), &Mlp::xielu, &Mlp::gate_factor,
                             &Mlp::gate_deviations, &Mlp::limits) == Mlp{};
}

bool is_rms(const model::Norm& norm) {
  return norm.present && norm.kind == model::NormKind::rms && norm.bias == model::kNoWeight;
}

/// Without what does not show at a layer's ends: the mixer, the MLP and the norms before them.
Layer without_middle(const Layer& layer) {
  return without(layer, &Layer::placement, &Layer::attention_norm, &Layer::attention,
                 &Layer::mlp_norm, &Layer::mlp, &Layer::shortcut);
}

bool is_plain(const Layer& layer) {
  return is_rms(layer.attention_norm) && is_rms(layer.mlp_norm) && is_plain(layer.attention) &&
         is_plain(layer.mlp) &&
         without(layer, &Layer::attention_norm, &Layer::attention, &Layer::mlp_norm, &Layer::mlp) ==
             Layer{};
}

bool begins_by_norm(const Layer& layer) {
  return layer.attention_norm.present &&
         without(without_middle(layer), &Layer::branch_factor, &Layer::attention_post_norm,
                 &Layer::mlp_post_norm, &Layer::recurrent, &Layer::input, &Layer::factor,
                 &Layer::ends_shortcut) == Layer{};
}

bool ends_by_sum(const Layer& layer) {
  return without(without_middle(layer), &Layer::branch_factor, &Layer::attention_post_norm,
                 &Layer::mlp_post_norm, &Layer::recurrent, &Layer::shared_block) == Layer{};
}

bool norms_mixed(const Layer& layer) {
  return ends_by_product(layer.attention) && layer.mlp.kind != MlpKind::none &&
         layer.mlp_norm.present &&
         without(without_middle(layer), &Layer::mlp_post_norm, &Layer::input, &Layer::shared_block,
                 &Layer::factor, &Layer::ends_shortcut) == Layer{};
}

bool sums_product(const Layer& layer) {
  return ends_by_product(layer.mlp) && without(without_middle(layer), &Layer::attention_post_norm,
                                               &Layer::recurrent, &Layer::shared_block) == Layer{};
}

}  // namespace

LayerEnds ends_of(const Layer& layer) {
  const NormPlacement placement = layer.placement;
  const bool branches = placement == NormPlacement::pre || placement == NormPlacement::sandwich;
  const bool adds = branches || placement == NormPlacement::parallel;
  return {.is_plain = is_plain(layer),
          .begins_by_norm = adds && begins_by_norm(layer),
          .ends_by_sum = adds && ends_by_sum(layer),
          .norms_mixed = branches && norms_mixed(layer),
          .sums_product = adds && sums_product(layer)};
}

bool has_plain_layers(const model::ModelSpec& spec) {
  const auto is_whole = [&](const model::Linear& linear) {
    const model::WeightSpec& weight = spec.weights[linear.weight];
    return weight.ranks == 1 && !weight.is_packed();
  };
  const auto fits = [&](const Layer& layer) {
    return is_plain(layer) && is_whole(layer.attention.qkv) && is_whole(layer.attention.out) &&
           is_whole(layer.mlp.up) && is_whole(layer.mlp.down);
  };
  return spec.streams.count() <= 1 && std::ranges::all_of(spec.layers, fits);
}

}  // namespace plimsoll::engine
