// Programs that start the one which their command line names.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace plimsoll::cli {

/// Programs that run the command behind their own flags: those flags that take a value, and how
/// many words stand before the command.
struct Starter {
  std::string_view name;
  std::vector<std::string_view> with_value = {};
  size_t operands = 0;
};
const std::vector<Starter>& starters();

}  // namespace plimsoll::cli
