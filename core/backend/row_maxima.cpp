#include "backend/row_maxima.h"

#include <algorithm>

#include "base/rounding.h"

namespace plimsoll::backend {

RowMaxima::RowMaxima(const model::WeightSpec& spec) {
  if (spec.ranks == 1 || spec.split != model::Split::row) return;
  const int64_t all = spec.columns() * spec.ranks;
  for (const model::Part& part : spec.parts) {
    if (!part.packing) continue;
    const int64_t together = model::rounded_together(part.packing->inputs);
    if (model::rounds_by_row(part.packing->inputs)) {
      group = all;
      range = range || part.packing->inputs == model::InputRounding::int8_zeros;
    } else if (spec.columns() % together != 0) {
      group = std::max(group, together);
    }
  }
  if (group > 1) count = range ? 2 : divide_up(all, group);
}

}  // namespace plimsoll::backend
