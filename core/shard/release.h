// Differences of shards' tensor names and bytes between releases of vLLM.
#pragma once

#include <string>

#include "model/vllm/version.h"

namespace plimsoll::shard {

/// A release of vLLM.
using Release = model::VllmVersion;

inline constexpr Release kOldestRelease{.minor = 6, .patch = 0};
using model::kNewestRelease;

/// Releases since which vLLM's state dict differs (read off the releases' sources).
namespace since {
inline constexpr Release kNoNormalizer{.minor = 9, .patch = 2};  // Gemma's, saved until then
inline constexpr Release kAttentionScales{.minor = 14};
inline constexpr Release kGemma3Head{.minor = 14};
inline constexpr Release kGateAlias{.minor = 15};  // Qwen3-MoE's gate under experts, names moved
inline constexpr Release kRoutedExperts{.minor = 24};  // experts.routed_experts.w13_weight
inline constexpr Release kInputNorm{.minor = 28};      // Qwen2.5-VL
inline constexpr Release kOwnHead{.minor = 29};  // a head that differs from the table it is tied to
inline constexpr Release kQuantizedLayers{.minor = 32};  // of earlier ones they are not known
inline constexpr Release kPipelineNames{.minor = 32};    // stages overwrote each other before
}  // namespace since

/// A release as model::parse_version reads it. Throws Error(usage) for other text and for releases
/// outside the known ones.
Release parse_release(const std::string& text);

}  // namespace plimsoll::shard
