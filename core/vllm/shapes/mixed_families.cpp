// Mixtures of experts, latent attention, and hybrids with a recurrent state.
#include <array>

#include "vllm/shapes/families.h"

namespace plimsoll::vllm {
namespace {

using model::Planned;

constexpr auto kMixedFamilies = std::to_array<Family>({
    {.planned = Planned::minimax_m3,
     .own_head = true,
     .qk_norm = QkNorm::head,
     .experts = Experts::minimax3,
     .router_bias = {"use_routing_bias", true},
     .mlp_name = "block_sparse_moe",
     .rotary_share = 0.5,
     .block_index = true},
    {.planned = Planned::hy_v4,
     .mixer = Mixer::gated_latent,
     .experts = Experts::hunyuan,
     .paired_indexer = true},
    {.planned = Planned::deepseek_v4,
     .own_head = true,
     .mixer = Mixer::compressed,
     .experts = Experts::deepseek,
     .fp4_experts = true},
    {.planned = Planned::ling_3,
     .own_head = true,
     .mlp_bias = {"use_bias", false},
     .mixer = Mixer::kimi_groups,
     .experts = Experts::glm},
    {.planned = Planned::kimi_k3,
     .own_head = true,
     .mixer = Mixer::kimi_delta,
     .experts = Experts::deepseek,
     .mxfp4_experts = true},
    {.planned = Planned::ling_2_5,
     .own_head = true,
     .mlp_bias = {"use_bias", false},
     .mixer = Mixer::lightning_groups,
     .experts = Experts::bailing,
     .float_router = true},
    {.planned = Planned::ernie_4_5_vl,
     .qkv_bias = {"use_bias", false},
     .mlp_bias = {"use_bias", false},
     .tied = true,
     .experts = Experts::paired,
     .rotary_each = true},
    {.planned = Planned::step_3,
     .mixer = Mixer::factored,
     .experts = Experts::biased,
     .router_bias = kNever,
     .mlp_name = "moe"},
    {.planned = Planned::mixture,
     .qkv_bias = kAttentionBias,
     .out_bias = kAttentionBias,
     .mlp_bias = kMlpBias,
     .experts = Experts::biased,
     .router_bias = kNever},
});

}  // namespace

std::span<const Family> mixed_families() {
  return kMixedFamilies;
}

}  // namespace plimsoll::vllm
