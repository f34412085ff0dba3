// What of a shard's keys and bytes depends on vLLM's release.
#pragma once

#include <compare>
#include <string>

namespace plimsoll::shard {

/// A release of vLLM: 0.MINOR.PATCH.
struct Release {
  int minor = 32;
  int patch = 0;
  auto operator<=>(const Release&) const = default;
};

inline constexpr Release kOldestRelease{.minor = 6, .patch = 0};
inline constexpr Release kNewestRelease{.minor = 32, .patch = 0};

/// Releases since which vLLM's state dict differs (read off the releases' sources).
namespace since {
// A float32 checkpoint and --dtype auto: bfloat16, float16 before.
inline constexpr Release kPreferredDType{.minor = 9, .patch = 1};
inline constexpr Release kNoNormalizer{.minor = 9, .patch = 2};  // Gemma's, saved until then
inline constexpr Release kAttentionScales{.minor = 14};
inline constexpr Release kGemma3Head{.minor = 14};
inline constexpr Release kGateAlias{.minor = 15};  // Qwen3-MoE's gate under experts, names moved
inline constexpr Release kRoutedExperts{.minor = 24};  // experts.routed_experts.w13_weight
inline constexpr Release kInputNorm{.minor = 28};      // Qwen2.5-VL
inline constexpr Release kOwnHead{.minor = 29};  // a head that differs from the table it is tied to
inline constexpr Release kPipelineNames{.minor = 32};  // stages overwrote each other before
}  // namespace since

/// "0.32.0", "0.32", "v0.32.0". Throws Error(usage) for other text and for releases outside the
/// known ones.
Release parse_release(const std::string& text);
std::string release_text(const Release& release);

}  // namespace plimsoll::shard
