// HY V4: latent attention with a gate of its output and learned sinks, within residual streams that
// are mixed before and after each branch.
#include "vllm/shapes/builder.h"

namespace plimsoll::vllm {
namespace {

constexpr Bounds kStreams{1, 1 << 10};

/// Counts the weights that mix the streams around both branches of a layer, and into one behind the
/// last layer.
void add_streams(Builder& build, int64_t layer) {
  if (!build.config.flag({"enable_ihc"}, true)) return;
  const int64_t streams = build.config.integer({"hc_mult"}, 4, kStreams);
  const Amount width = Amount{streams} * build.dims.hidden;
  constexpr int64_t kBranches = 2, kGates = 2, kScales = 2;
  const int64_t mixes = kGates * streams;
  build.weights.parameters(Part::norm, (width * mixes + mixes + kScales) * kBranches * kFloat32);
  if (layer == build.dims.layers - 1) {
    build.weights.parameters(Part::norm, (width * streams + streams + 1) * kFloat32);
  }
}

}  // namespace

void add_gated_latent(Builder& build, int64_t layer) {
  const ConfigView& config = build.config;
  const int64_t heads = build.dims.heads;
  RankWeights& weights = build.weights;
  add_latent_attention(build, layer);
  if (config.flag({"gated_mla"}, true)) {
    const bool each = config.text({"gating_type"}, "elementwise") == "elementwise";
    const int64_t gates = each ? config.integer({"v_head_dim"}, 256) : 1;
    weights.linear(Part::attention, {{build.layer_path(layer) + ".self_attn", "linear_gate", {}},
                                     build.dims.hidden,
                                     {heads * gates}});
  }
  if (config.flag({"learnable_sink"}, true)) {
    weights.plain(Part::attention, weights.share(heads, "the number of attention heads"));
  }
  add_streams(build, layer);
}

}  // namespace plimsoll::vllm
