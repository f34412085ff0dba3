#include "vllm/launch/class_rules.h"

#include <algorithm>
#include <array>

#include "vllm/shapes/model_shape.h"

namespace plimsoll::vllm {
namespace {

constexpr auto kRules = std::to_array<ClassRules>({
    {.name = "DeepseekV41ForCausalLM", .ngram_layers = "engram_layer_ids"},
    {.name = "DeepseekV4For", .settles_cache = {0, 30, 0}},
    {.name = "Glm5Next", .blackwell_cache = "fp8", .blackwell_cache_since = {0, 33, 0}},
    {.name = "GlmMoeDsaForCausalLM",
     .blackwell_cache = "fp8_e4m3",
     .blackwell_cache_since = {0, 32, 0}},
    // engine/arg_utils.py: has_seqlen_agnostic_layers
    {.name = "JambaForCausalLM", .whole_prompts = {{0, 5, 4}, {0, 6, 3}}},
    {.name = "Qwen4Exp", .ngram_layers = "ple_layer_ids", .pooled_index = "indexer_n_heads"},
});

}  // namespace

const ClassRules& class_rules(const ConfigView& config) {
  static constexpr ClassRules kNothing{};
  const std::string name = architecture_name(config);
  const auto* const row = std::ranges::find_if(
      kRules, [&](const ClassRules& rules) { return name.starts_with(rules.name); });
  return row == kRules.end() ? kNothing : *row;
}

bool caches_latents(const ConfigView& config) {
  constexpr auto kTypes =
      std::to_array<std::string_view>({"deepseek_mtp", "deepseek_v2", "deepseek_v3", "kimi_k2"});
  const ConfigView text = text_config(config);
  return text.integer({"kv_lora_rank"}, 0) > 0 &&
         std::ranges::find(kTypes, text.text({"model_type"}, "")) != kTypes.end();
}

}  // namespace plimsoll::vllm
