#include "image/pixels.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace plimsoll::image {

int64_t Layout::values() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

void Pixels::write_values(int64_t first, int64_t count, float* to) const {
  const int64_t run = channel_run / layout.repeats;
  const uint8_t* level = levels.data() + first / layout.repeats;
  const uint8_t* end = level + count / layout.repeats;
  while (level != end) {
    for (const auto& table : *tables) {
      for (int64_t i = 0; i < run; ++i) to[i] = table[level[i]];
      for (int64_t copy = 1; copy < layout.repeats; ++copy) std::copy_n(to, run, to + copy * run);
      level += run;
      to += channel_run;
    }
  }
}

void Pixels::write_patches(int64_t tile, int64_t patch, float* to) const {
  const int64_t height = layout.shape[2], width = layout.shape[3];
  const uint8_t* planes = levels.data() + tile * 3 * height * width;
  for (int64_t y = 0; y + patch <= height; y += patch) {
    for (int64_t x = 0; x + patch <= width; x += patch) {
      for (int64_t c = 0; c < 3; ++c) {
        const auto& table = (*tables)[static_cast<size_t>(c)];
        for (int64_t row = 0; row < patch; ++row) {
          const uint8_t* from = planes + (c * height + y + row) * width + x;
          for (int64_t i = 0; i < patch; ++i) *to++ = table[from[i]];
        }
      }
    }
  }
}

}  // namespace plimsoll::image
