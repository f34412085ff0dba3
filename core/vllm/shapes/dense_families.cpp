// Dense models, each as its differences from a plain pre-norm decoder.
#include <array>

#include "vllm/shapes/families.h"

namespace plimsoll::vllm {
namespace {

using model::Planned;

constexpr auto kDenseFamilies = std::to_array<Family>({
    {.planned = Planned::muse_glimmer,
     .own_head = true,
     .norms = 4,
     .output_gate = true,
     .positions_in_windows = true,
     .stages = Stages::repeated},
    {.planned = Planned::whisper,
     .norm = Norm::layer,
     .norms = 3,
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .gated = false,
     .positions = Positions::learned,
     .whole_embedding = true,
     .mixer = Mixer::crossed},
    {.planned = Planned::molmo2,
     .own_head = true,
     .qk_norm = QkNorm::head,
     .qk_norm_key = "use_qk_norm",
     .qkv_bias = {"qkv_bias", true},
     .stages = Stages::repeated},
    {.planned = Planned::bert,
     .norm = Norm::layer,
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .gated = false,
     .positions = Positions::learned,
     .pooling = true},
    {.planned = Planned::modern_bert,
     .norm = Norm::layer_plain,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = kMlpBias,
     .windows = Windows::between,
     .normed_classifier = true,
     .pooling = true},
    {.planned = Planned::nomic_bert,
     .norm = Norm::layer,
     .qkv_bias = {"qkv_proj_bias", true},
     .out_bias = {"qkv_proj_bias", true},
     .mlp_bias = {"mlp_fc1_bias", true},
     .unmodelled_key = "moe_every_n_layers",
     .pooling = true},
    {.planned = Planned::gte,
     .norm = Norm::layer,
     .qkv_bias = kAlways,
     .out_bias = kAlways,
     .mlp_bias = kAlways,
     .plain_gate = true,
     .pooling = true},
});

}  // namespace

std::span<const Family> dense_families() {
  return kDenseFamilies;
}

}  // namespace plimsoll::vllm
