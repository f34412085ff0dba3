#include "engine/vision/windows.h"

#include <algorithm>

namespace plimsoll::engine {

WindowOrder window_order(int64_t rows, int64_t columns, int64_t window) {
  const int64_t height = window > 0 ? window : rows;
  const int64_t width = window > 0 ? window : columns;
  WindowOrder order;
  for (int64_t top = 0; top < rows; top += height) {
    for (int64_t left = 0; left < columns; left += width) {
      const int64_t bottom = std::min(rows, top + height);
      const int64_t right = std::min(columns, left + width);
      for (int64_t y = top; y < bottom; ++y) {
        for (int64_t x = left; x < right; ++x) {
          order.units.push_back(static_cast<int32_t>(y * columns + x));
        }
      }
      order.lengths.push_back((bottom - top) * (right - left));
    }
  }
  return order;
}

}  // namespace plimsoll::engine
