// A release of vLLM.
#pragma once

#include <compare>
#include <string>

namespace plimsoll::model {

struct VllmVersion {
  int major = 0;
  int minor = 32;
  int patch = 0;
  auto operator<=>(const VllmVersion&) const = default;
};

/// Release before which messages and checks are those of the first engine (V0).
inline constexpr VllmVersion kFirstEngineOnly{0, 8, 0};
/// Release from which bitsandbytes is a plugin.
inline constexpr VllmVersion kWithoutBitsandbytes{0, 28, 0};

/// Parses "0.19", "0.19.0" or "v0.19.0rc1". Throws Error(usage).
VllmVersion parse_version(const std::string& text);

/// "0.19.0".
std::string version_text(const VllmVersion& version);

}  // namespace plimsoll::model
