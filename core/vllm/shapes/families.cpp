#include "vllm/shapes/families.h"

#include <algorithm>
#include <array>

namespace plimsoll::vllm {
namespace {

using model::Planned;

constexpr auto kFamilies = std::to_array<Family>({
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
});

}  // namespace

const Family* find_family(std::string_view architecture) {
  const model::Family* const named = model::find_architecture(architecture);
  if (named == nullptr || named->planned == Planned::none) return nullptr;
  const auto row = std::ranges::find(kFamilies, named->planned, &Family::planned);
  return row == kFamilies.end() ? nullptr : &*row;
}

}  // namespace plimsoll::vllm
