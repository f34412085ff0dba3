// Suggestions for misspelt names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

/// The member of `names` nearest to `name` by edits, when near enough to be meant; else empty.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

/// "; did you mean NEAREST?", or nothing where `nearest` is empty.
std::string did_you_mean(std::string_view nearest);

}  // namespace plimsoll
