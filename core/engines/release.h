// Releases of engines, as people write them.
#pragma once

#include <string>

#include "model/vllm/version.h"

namespace plimsoll::engines {

using Version = model::VllmVersion;  // three numbers

/// Parses "0.5.23", "v0.5.23", "0.5.23.post1" or "1.3.0rc2". Throws Error(usage).
Version parse_release(const std::string& text, Version newest);

}  // namespace plimsoll::engines
