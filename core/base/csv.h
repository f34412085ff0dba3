// CSV tables that are compiled in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Fields of one CSV line; quotes may hold commas.
std::vector<std::string> csv_fields(std::string_view line);

}  // namespace plimsoll
