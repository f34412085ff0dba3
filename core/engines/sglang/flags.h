// The command line of SGLang's server.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engines/command_line.h"
#include "engines/release.h"

namespace plimsoll::engines::sglang {

/// SGLang's flags, those that move memory first.
std::span<const Flag> flags();

/// A command line in which flags have the names of `flags()`: releases before 0.5.20 took the names
/// of older ones too.
std::vector<std::string> with_current_names(std::vector<std::string> words, Version version);

}  // namespace plimsoll::engines::sglang
