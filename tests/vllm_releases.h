// Releases of vLLM that tests go through.
#pragma once

#include <algorithm>
#include <vector>

#include "model/vllm/version.h"

namespace plimsoll::testing {

/// All releases from 0.4.0 to the newest, in their order.
inline std::vector<model::VllmVersion> known_releases() {
  constexpr model::VllmVersion kFirst{0, 4, 0};
  std::vector<model::VllmVersion> releases = {model::kNewestRelease};
  // A development build is taken for the release before it.
  while (releases.back() > kFirst)
    releases.push_back(model::parse_version(model::version_text(releases.back()) + ".dev0"));
  std::ranges::reverse(releases);
  return releases;
}

}  // namespace plimsoll::testing
