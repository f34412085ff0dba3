// Mixtures of experts, latent attention, and hybrids with a recurrent state.
#include <array>

#include "vllm/shapes/families.h"

namespace plimsoll::vllm {
namespace {

constexpr auto kMixedFamilies = std::to_array<Family>({
    {.architecture = "MiniMaxM3SparseForCausalLM",
     .own_head = true,
     .qk_norm = QkNorm::head,
     .experts = Experts::minimax3,
     .router_bias = {"use_routing_bias", true},
     .mlp_name = "block_sparse_moe",
     .rotary_share = 0.5,
     .block_index = true},
    {.architecture = "HYV4ForCausalLM",
     .mixer = Mixer::gated_latent,
     .experts = Experts::hunyuan,
     .paired_indexer = true},
    {.architecture = "DeepseekV4ForCausalLM",
     .own_head = true,
     .mixer = Mixer::compressed,
     .experts = Experts::deepseek,
     .fp4_experts = true},
    {.architecture = "BailingMoeV3ForCausalLM",
     .own_head = true,
     .mlp_bias = {"use_bias", false},
     .mixer = Mixer::kimi_groups,
     .experts = Experts::glm},
    {.architecture = "KimiK3ForCausalLM",
     .own_head = true,
     .mixer = Mixer::kimi_delta,
     .experts = Experts::deepseek,
     .mxfp4_experts = true},
    {.architecture = "BailingMoeV2_5ForCausalLM",
     .own_head = true,
     .mlp_bias = {"use_bias", false},
     .mixer = Mixer::lightning_groups,
     .experts = Experts::bailing,
     .float_router = true},
    {.architecture = "Ernie4_5_VLMoeForConditionalGeneration",
     .qkv_bias = {"use_bias", false},
     .mlp_bias = {"use_bias", false},
     .tied = true,
     .experts = Experts::paired,
     .rotary_each = true},
    {.architecture = "Step3TextForCausalLM",
     .mixer = Mixer::factored,
     .experts = Experts::biased,
     .router_bias = kNever,
     .mlp_name = "moe"},
    {.architecture = kUnknownMixture,
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
