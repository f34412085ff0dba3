#include "model/families/multimodal/languages.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "model/families/family.h"

namespace plimsoll::model {
namespace {

/// MiniCPM-V's language model of each release.
struct VersionName {
  std::string_view version;
  std::string_view architecture;
};
constexpr std::string_view kUsualMiniCpm = "LlamaForCausalLM";
constexpr auto kMiniCpms = std::to_array<VersionName>(
    {{"2.0", "MiniCPMForCausalLM"}, {"2.6", "Qwen2ForCausalLM"}, {"4.5", "Qwen3ForCausalLM"}});

std::string_view mini_cpm_language(const ConfigView& config, std::string_view unnamed) {
  const std::string version = mini_cpm_version(config);
  if (version.empty()) return unnamed;
  const auto* const row = std::ranges::find(kMiniCpms, version, &VersionName::version);
  return row == kMiniCpms.end() ? kUsualMiniCpm : row->architecture;
}

}  // namespace

std::string mini_cpm_version(const ConfigView& config) {
  if (!config.has("version")) return "";
  return config.is_text("version") ? config.text({"version"}, "")
                                   : fmt::format("{:.1f}", config.number({"version"}, 0));
}

/// The first release names no version: it is known by its width.
std::string_view language_of_mini_cpm_v(const ConfigView& config) {
  constexpr int64_t kFirstWidth = 2304;
  const bool first = config.integer({"hidden_size"}, 0) == kFirstWidth;
  return mini_cpm_language(config, first ? kMiniCpms.front().architecture : kUsualMiniCpm);
}

std::string_view language_of_mini_cpm_o(const ConfigView& config) {
  return mini_cpm_language(config, "Qwen2ForCausalLM");
}

std::string_view language_of_mistral_3(const ConfigView& config) {
  const bool latent = config.child({"text_config"}).text({"model_type"}, "") == "mistral4";
  return latent ? "DeepseekV3ForCausalLM" : "MistralForCausalLM";
}

std::string_view described_language(std::string_view named, const ConfigView& text) {
  // Heads without latents: the attention of the first DeepSeek.
  const bool whole_heads =
      named == "DeepseekV2ForCausalLM" && text.has("qk_nope_head_dim") &&
      text.integer({"qk_nope_head_dim"}, 0) + text.integer({"qk_rope_head_dim"}, 0) == 0;
  return whole_heads ? "DeepseekForCausalLM" : "";
}

Kin nearest_kin(const ConfigView& text, bool mixture) {
  if (text.has("kv_lora_rank") && mixture)
    return {"DeepseekV3ForCausalLM", "a DeepSeek-like mixture of experts with latent attention"};
  if (text.has("kv_lora_rank"))
    return {"MiniCPM3ForCausalLM", "a decoder with latent attention, like MiniCPM 3"};
  if (mixture) return {kUnknownMixture, "a Llama-like decoder with experts in its MLPs"};
  return {"LlamaForCausalLM", "a Llama-like decoder"};
}

}  // namespace plimsoll::model
