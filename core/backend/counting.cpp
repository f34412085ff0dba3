#include "backend/counting.h"

#include <fmt/format.h>

#include <stdexcept>

namespace plimsoll::backend {

void CountingBackend::never(std::string_view op) {
  throw std::logic_error(
      fmt::format("{}: the counting backend runs nothing; give it a counting scratch arena", op));
}

}  // namespace plimsoll::backend
