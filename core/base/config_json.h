// JSON that Python wrote: config.json and its like.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/json.h"

namespace plimsoll {

/// Turns NaN and Infinity, which Python's json writes and JSON lacks, into the strings "NaN",
/// "Infinity" and "-Infinity", so that a key that needs a number refuses them by name.
std::string without_python_numbers(std::string_view text);

/// Reads a config as it is written. Throws Error(checkpoint_unusable) naming file, line and column.
Json read_config_json(const std::filesystem::path& file);

}  // namespace plimsoll
