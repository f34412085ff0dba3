// Which releases of vLLM have a flag, and a key of --compilation-config.
#pragma once

#include <string>
#include <string_view>

#include "model/vllm/version.h"

namespace plimsoll::vllm {

/// True when vLLM's command line takes the flag ("--rope-scaling") in this release. Flags that are
/// not vLLM's, or that all releases from 0.6 on have, count as taken.
bool takes_flag(std::string_view flag, const model::VllmVersion& version);

/// What a release says of a flag that it does not take: "unrecognized arguments: --rope-scaling;
/// vLLM has it from 0.4.3 to 0.11.0".
std::string unrecognized_flag(std::string_view flag);

/// True when --compilation-config has the key in this release.
bool takes_compilation_key(std::string_view key, const model::VllmVersion& version);

/// What a release makes of a key that it lacks: "vLLM 0.33.0 refuses the key use_cudagraph of
/// --compilation-config; vLLM has it from 0.6.5 to 0.11.0". Releases before 0.13 ignore such a key.
std::string unknown_compilation_key(std::string_view key, const model::VllmVersion& version);

}  // namespace plimsoll::vllm
