// Releases of vLLM that serve an architecture.
#pragma once

#include <string>

#include "vllm/engine_args.h"

namespace plimsoll::vllm {

/// vLLM's message, with the release that serves the architecture, where this release has no class
/// for it and transformers has none that it can run; empty: it serves it, or is not known not to.
std::string served_refusal(const std::string& architecture, const VllmVersion& version);

/// Note on an architecture that the release itself has no class for; empty: it has one.
std::string served_note(const std::string& architecture, const VllmVersion& version);

}  // namespace plimsoll::vllm
