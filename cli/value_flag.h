// Flags whose text is read by a function of ours. Given twice, the last one counts.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/units.h"

namespace plimsoll::cli {

using Setter = std::function<void(const std::string&)>;

/// Adds a flag whose text `set` reads; a std::invalid_argument that it throws becomes a usage error
/// naming the flag. `type` is what the help shows for the value.
CLI::Option* value_flag(CLI::App& command, const std::string& names, const std::string& type,
                        const std::string& help, Setter set);
CLI::Option* text_flag(CLI::App& command, const std::string& names, std::string& target,
                       const std::string& type, const std::string& help);
/// --NAME and --no-NAME, which call `set` with true and false.
void switch_flag(CLI::App& command, const std::string& name, std::function<void(bool)> set,
                 const std::string& help);

/// What a count may be, both included.
struct CountBounds {
  int64_t least = 1;
  int64_t most = std::numeric_limits<int64_t>::max();
};

template <typename Number>
Number number_of(const std::optional<Number>&);
template <typename Number>
Number number_of(const Number&);

/// Target: an integer, or an optional of one.
template <typename Target>
CLI::Option* count_flag(CLI::App& command, const std::string& names, Target& target,
                        CountBounds bounds, const std::string& help) {
  using Number = decltype(number_of(target));
  return value_flag(command, names, "N", help, [&target, bounds](const std::string& text) {
    const int64_t count = parse_count(text);
    if (count < bounds.least || count > bounds.most || !std::in_range<Number>(count)) {
      throw std::invalid_argument(
          bounds.most == std::numeric_limits<int64_t>::max()
              ? fmt::format("expected a number of at least {}", bounds.least)
              : fmt::format("expected a number from {} to {}", bounds.least, bounds.most));
    }
    target = static_cast<Number>(count);
  });
}

/// Target: an integer, or an optional of one; bytes. A bare number is in `bare_unit` bytes.
template <typename Target>
CLI::Option* size_flag(CLI::App& command, const std::string& names, Target& target,
                       const std::string& help, uint64_t bare_unit = 1,
                       const std::string& type = "SIZE", uint64_t least = 1) {
  using Number = decltype(number_of(target));
  return value_flag(command, names, type, help,
                    [&target, bare_unit, least](const std::string& text) {
                      const uint64_t size = parse_size(text, bare_unit);
                      if (size < least || !std::in_range<int64_t>(size)) {
                        throw std::invalid_argument("expected a size above 0, such as 40GiB");
                      }
                      target = static_cast<Number>(size);
                    });
}

/// Whether two texts are the same but for the case of letters.
bool same_word(std::string_view a, std::string_view b);

/// One of several words, in any case. What another word chooses too is taken, but not listed.
template <typename Enum>
CLI::Option* choice_flag(CLI::App& command, const std::string& names, Enum& target,
                         std::vector<std::pair<std::string, Enum>> choices,
                         const std::string& help) {
  std::string type;
  for (size_t i = 0; i < choices.size(); ++i) {
    bool listed = true;
    for (size_t before = 0; before < i; ++before)
      listed = listed && choices[before].second != choices[i].second;
    if (listed) type += (type.empty() ? "" : "|") + choices[i].first;
  }
  return value_flag(
      command, names, type, help,
      [&target, choices = std::move(choices), type](const std::string& text) {
        for (const auto& [name, value] : choices) {
          if (!same_word(name, text)) continue;
          target = value;
          return;
        }
        throw std::invalid_argument(fmt::format("expected one of {}, found \"{}\"", type, text));
      });
}

/// A number above 0 and at most 1.
double parse_share(const std::string& text);

/// A chat template: the file of that name, or the text itself. Throws std::invalid_argument.
std::string read_template(const std::string& text);

}  // namespace plimsoll::cli
