// Counts of things in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plimsoll {

/// "1 image", "2 images".
inline std::string counted(uint64_t count, std::string_view thing) {
  return std::to_string(count) + " " + std::string(thing) + (count == 1 ? "" : "s");
}

}  // namespace plimsoll
