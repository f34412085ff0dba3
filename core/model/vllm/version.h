// A release of vLLM.
#pragma once

#include <compare>
#include <string>

namespace plimsoll::model {

struct VllmVersion {
  int major = 0;
  int minor = 33;
  int patch = 0;
  auto operator<=>(const VllmVersion&) const = default;
};

/// The newest release whose rules are known, and the default of `plan` and `shard`.
inline constexpr VllmVersion kNewestRelease;

/// Release from which vLLM has its second engine (V1) beside the first (V0).
inline constexpr VllmVersion kTwoEngines{0, 8, 0};
/// Release from which bitsandbytes is a plugin.
inline constexpr VllmVersion kWithoutBitsandbytes{0, 28, 0};

/// Parses "0.19", "0.19.0", "v0.19.0rc1", "0.6.1.post2" or "0.9.0.1". A development build such as
/// "0.33.1.dev12+g0123abc" becomes the nearest older release. Throws Error(usage).
VllmVersion parse_version(const std::string& text);

/// True for the version of a development build, which lies between two releases.
bool is_development_build(const std::string& text);

/// "0.19.0".
std::string version_text(const VllmVersion& version);

}  // namespace plimsoll::model
