// The command line of SGLang's server.
#pragma once

#include <span>

#include "engines/command_line.h"

namespace plimsoll::engines::sglang {

/// SGLang's flags, those that move memory first.
std::span<const Flag> flags();

}  // namespace plimsoll::engines::sglang
