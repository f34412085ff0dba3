// Which releases of vLLM have a flag.
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

}  // namespace plimsoll::vllm
