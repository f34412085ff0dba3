// The command line of SGLang's server.
#pragma once

#include <optional>
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

/// The last release that takes every former name in a command line; nothing: it has none.
std::optional<Version> last_release_of(std::span<const std::string> words);

}  // namespace plimsoll::engines::sglang
