#include "engine/forward/layer_ends.h"

#include <catch2/catch.hpp>
#include <functional>

#include "engine/specs.h"

using namespace plimsoll;
using model::LayerSpec;
using model::NormPlacement;

namespace {

/// What ends_of() says, a letter for each that holds.
std::string letters(const engine::LayerEnds& ends) {
  std::string text;
  if (ends.is_plain) text += 'p';
  if (ends.begins_by_norm) text += 'b';
  if (ends.ends_by_sum) text += 'e';
  if (ends.norms_mixed) text += 'n';
  if (ends.sums_product) text += 's';
  return text;
}

}  // namespace

TEST_CASE("a plain layer's ops join, and each part beside them takes it out where it stands") {
  struct Row {
    const char* name;
    std::function<void(LayerSpec&)> change;
    const char* expected;
  };
  const model::Norm norm{.weight = 0, .present = true};
  const Row rows[] = {
      {"plain", [](LayerSpec&) {}, "pbens"},
      {"window, soft cap, norm of q",
       [&](LayerSpec& layer) {
         layer.attention.window = 8;
         layer.attention.soft_cap = 30;
         layer.attention.q_norm = norm;
       },
       "pbens"},
      {"layer norm", [](LayerSpec& layer) { layer.mlp_norm.kind = model::NormKind::layer; },
       "bens"},
      {"no norm", [](LayerSpec& layer) { layer.attention_norm = {}; }, "ens"},
      {"no norm of the MLP", [](LayerSpec& layer) { layer.mlp_norm = {}; }, "bes"},
      {"sandwich", [](LayerSpec& layer) { layer.placement = NormPlacement::sandwich; }, "bens"},
      {"parallel", [](LayerSpec& layer) { layer.placement = NormPlacement::parallel; }, "bes"},
      {"post", [](LayerSpec& layer) { layer.placement = NormPlacement::post; }, ""},
      {"residual", [](LayerSpec& layer) { layer.placement = NormPlacement::residual; }, ""},
      {"norm behind attention", [&](LayerSpec& layer) { layer.attention_post_norm = norm; }, "bes"},
      {"norm behind the MLP", [&](LayerSpec& layer) { layer.mlp_post_norm = norm; }, "ben"},
      {"factor of branches", [](LayerSpec& layer) { layer.branch_factor = 0.5f; }, "be"},
      {"factor of the layer", [](LayerSpec& layer) { layer.factor = 0; }, "bn"},
      {"input of its own", [](LayerSpec& layer) { layer.input.emplace(); }, "bn"},
      {"shared block", [](LayerSpec& layer) { layer.shared_block.emplace(); }, "ens"},
      {"shortcut", [](LayerSpec& layer) { layer.shortcut.emplace(); }, "bens"},
      {"end of a shortcut", [](LayerSpec& layer) { layer.ends_shortcut = true; }, "bn"},
      {"recurrent mixer", [](LayerSpec& layer) { layer.recurrent.emplace(); }, "bes"},
      {"streams", [](LayerSpec& layer) { layer.streams.emplace(); }, ""},
      {"factor of attention", [](LayerSpec& layer) { layer.attention.out_factor = 2; }, "bes"},
      {"gate of attention", [](LayerSpec& layer) { layer.attention.gate.weight = 0; }, "bens"},
      {"latents", [](LayerSpec& layer) { layer.attention.latent.kv_rank = 8; }, "bens"},
      {"adapter of k", [](LayerSpec& layer) { layer.attention.k_adapter.down.weight = 0; }, "bens"},
      {"factor of the MLP", [](LayerSpec& layer) { layer.mlp.out_factor = 2; }, "ben"},
      {"limits", [](LayerSpec& layer) { layer.mlp.limits.gate = 7; }, "bens"},
      {"plain MLP", [](LayerSpec& layer) { layer.mlp.kind = model::MlpKind::plain; }, "bens"},
      {"experts", [](LayerSpec& layer) { layer.mlp.kind = model::MlpKind::experts; }, "ben"},
      {"no MLP", [](LayerSpec& layer) { layer.mlp.kind = model::MlpKind::none; }, "be"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    LayerSpec layer = testing::make_spec({}).layers.front();
    row.change(layer);
    CHECK(letters(engine::ends_of(layer)) == row.expected);
  }
}

TEST_CASE("layers are plain where their weights are whole and not quantized") {
  model::ModelSpec spec = testing::make_spec({});
  CHECK(engine::has_plain_layers(spec));
  spec.weights[static_cast<size_t>(spec.layers.back().mlp.down.weight)].ranks = 2;
  CHECK_FALSE(engine::has_plain_layers(spec));
}
