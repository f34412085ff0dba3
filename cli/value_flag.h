// Flags whose text is parsed by our own functions. The last one counts where a flag is given twice.
#pragma once

#include <algorithm>
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/choice.h"
#include "base/units.h"

namespace plimsoll::cli {

using Setter = std::function<void(const std::string&)>;

/// Adds a flag whose text `set` reads; a std::invalid_argument or JsonError that it throws becomes
/// a usage error naming the flag. `type` is what the help shows for the value.
CLI::Option* value_flag(CLI::App& command, const std::string& names, const std::string& type,
                        const std::string& help, Setter set);
CLI::Option* text_flag(CLI::App& command, const std::string& names, std::string& target,
                       const std::string& type, const std::string& help);
/// Declares --NAME and --no-NAME, which call `set` with true and false.
void switch_flag(CLI::App& command, const std::string& name, std::function<void(bool)> set,
                 const std::string& help);

template <typename Number>
Number number_of(const std::optional<Number>&);
template <typename Number>
Number number_of(const Number&);

/// Declares a flag with a count. Target: an integer, or an optional of one.
template <typename Target>
CLI::Option* count_flag(CLI::App& command, const std::string& names, Target& target,
                        CountBounds bounds, const std::string& help) {
  using Number = decltype(number_of(target));
  constexpr Number most = std::numeric_limits<Number>::max();
  if (std::in_range<int64_t>(most)) bounds.most = std::min(bounds.most, static_cast<int64_t>(most));
  return value_flag(command, names, "N", help, [&target, bounds](const std::string& text) {
    target = static_cast<Number>(parse_count(text, bounds));
  });
}

/// Declares a flag with a size of memory in bytes. Target: an integer, or an optional of one.
template <typename Target>
CLI::Option* memory_flag(CLI::App& command, const std::string& names, Target& target,
                         const std::string& help) {
  using Number = decltype(number_of(target));
  return value_flag(command, names, "SIZE", help, [&target](const std::string& text) {
    target = static_cast<Number>(parse_memory(text));
  });
}

/// Declares a flag with one of several words, in any case. Further words for a value are accepted,
/// but not listed.
template <typename Enum>
CLI::Option* choice_flag(CLI::App& command, const std::string& names, Enum& target,
                         Choices<Enum> choices, const std::string& help) {
  const std::string type = listed(choices);
  return value_flag(command, names, type, help,
                    [&target, choices = std::move(choices)](const std::string& text) {
                      target = chosen(text, choices);
                    });
}

/// Reads a chat template: the file of that name, or the text itself. Throws std::invalid_argument.
std::string read_template(const std::string& text);

}  // namespace plimsoll::cli
