// A flag whose text is read by a function of ours.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace plimsoll::cli {

using Setter = std::function<void(const std::string&)>;

/// Adds a flag whose text `set` reads; a std::invalid_argument that it throws becomes a usage error
/// naming the flag. `type` is what the help shows for the value.
CLI::Option* value_flag(CLI::App& command, const std::string& names, const std::string& type,
                        const std::string& help, Setter set);

/// A chat template: the file of that name, or the text itself. Throws std::invalid_argument.
std::string read_template(const std::string& text);

}  // namespace plimsoll::cli
