#include "backend/ops/draw.h"

#include "backend/checks.h"

namespace plimsoll::backend::ops {

void Draw::check() const {
  check_logits(kName, logits);
  const int64_t entries = std::ssize(batch->drawing.temperature);
  if (first < 0 || first + logits.rows > entries) {
    disagree("{}: rows [{}, {}) of {}", kName, first, first + logits.rows, entries);
  }
}

size_t Draw::workspace(const Footprint& footprint) const {
  return footprint.draw_workspace(logits.rows, logits.columns);
}

}  // namespace plimsoll::backend::ops
