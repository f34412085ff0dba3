// PLaMo 3: norms before and after both branches, stored as what is added to 1, 1/5 and 5^-1.5, and
// layers with a window, which have a RoPE of their own.
#include <algorithm>
#include <cmath>

#include "model/decoder.h"
#include "model/families/families.h"

namespace plimsoll::model {
namespace {

/// A window for each layer in turn, else one for all but the last of each period.
std::vector<int64_t> plamo_windows(const ConfigReader& config, int64_t layers) {
  for (const char* key : {"interleaved_sliding_window", "sliding_window"}) {
    const Json* listed = config.find({key});
    if (listed != nullptr && listed->is_array()) return listed_windows(config, key, layers);
  }
  const int64_t window = config.integer({"window_size", "sliding_window"}, 2048, {.least = 0});
  const int64_t period = config.integer({"sliding_window_pattern"}, 8, {1, 4096});
  return read_windows(config, layers, window,
                      [period](int64_t layer) { return (layer + 1) % period != 0; });
}

/// Which layers rotate as those with a window do: `layer_types` says, else the windows.
std::vector<int32_t> plamo_ropes(const ConfigReader& config, const Decoder& decoder) {
  const auto types = read_layer_types(config, "layer_types", decoder.sizes.layers,
                                      "sliding_attention", "full_attention");
  std::vector<int32_t> ropes;
  for (size_t i = 0; i < decoder.windows.size(); ++i) {
    ropes.push_back((types ? (*types)[i] : decoder.windows[i] > 0) ? 1 : 0);
  }
  return ropes;
}

float offset_of(const std::string& norm) {
  if (norm.ends_with("post_mixer_norm.weight")) return 1.0f / 5;
  if (norm.ends_with("post_mlp_norm.weight")) return static_cast<float>(std::pow(5.0, -1.5));
  return 1;
}

void add_offsets(ModelSpec& spec) {
  for (WeightSpec& weight : spec.weights) {
    if (!weight.name.ends_with("norm.weight")) continue;
    for (Part& part : weight.parts) part.offset = offset_of(weight.name);
  }
}

}  // namespace

ModelSpec make_plamo3(const ConfigReader& config) {
  Decoder decoder{.family = "plamo3"};
  read_common(config, decoder, {.theta = 1000000, .activation_key = ""});
  const Sizes& sizes = decoder.sizes;
  decoder.tied = config.boolean({"tie_word_embeddings"}, true);
  decoder.windows = plamo_windows(config, sizes.layers);
  decoder.layer_ropes = plamo_ropes(config, decoder);
  decoder.ropes.push_back(read_local_rope(config, {.head_dim = sizes.head_dim,
                                                   .max_position = sizes.max_position,
                                                   .theta_key = "rope_local_theta",
                                                   .layer_type = "sliding_attention"}));
  decoder.placement = NormPlacement::sandwich;
  decoder.qk_norm = true;
  decoder.qkv_stored = QkvStored::fused;
  decoder.gate_up_stored = GateUpStored::fused;
  decoder.names.layers = "layers.layers";
  decoder.names.attention = "mixer";
  decoder.names.attention_norm = "pre_mixer_norm";
  decoder.names.attention_post_norm = "post_mixer_norm";
  decoder.names.mlp_norm = "pre_mlp_norm";
  decoder.names.mlp_post_norm = "post_mlp_norm";
  decoder.vllm.idle_scales = true;
  ModelSpec spec = build(decoder);
  add_offsets(spec);
  return spec;
}

}  // namespace plimsoll::model
