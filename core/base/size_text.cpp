#include "base/size_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace plimsoll {

std::string size_text(int64_t bytes) {
  struct Unit {
    double bytes;
    int decimals;
    const char* name;
  };
  static constexpr Unit kUnits[] = {{0x1p30, 2, "GiB"}, {0x1p20, 1, "MiB"}, {0x1p10, 1, "KiB"}};
  const double size = std::abs(static_cast<double>(bytes));
  for (const Unit& unit : kUnits) {
    if (size < unit.bytes) continue;
    return fmt::format("{}{:.{}f} {}", bytes < 0 ? "-" : "", size / unit.bytes, unit.decimals,
                       unit.name);
  }
  return fmt::format("{} B", bytes);
}

std::string size_text(uint64_t bytes) {
  return size_text(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX)));
}

}  // namespace plimsoll
