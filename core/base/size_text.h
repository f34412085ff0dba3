// Sizes in bytes, for people.
#pragma once

#include <cstdint>
#include <string>

namespace plimsoll {

/// "39.98 GiB", "512.0 MiB", "96 B": never a size that rounds to nothing.
std::string size_text(int64_t bytes);
std::string size_text(uint64_t bytes);

}  // namespace plimsoll
