#include "engine/vision/rope_positions.h"

#include <algorithm>
#include <utility>

namespace plimsoll::engine {
namespace {

class Writer {
 public:
  explicit Writer(int64_t prompt) : prompt_(prompt), positions_(3 * prompt) {}

  void text_until(int64_t position) {
    for (; at_ < position; ++next_) put(next_, next_, next_);
  }
  void image(const ImageGrid& grid) {
    const int64_t start = next_;
    for (int64_t frame = 0; frame < grid.frames; ++frame) {
      const auto time = static_cast<int64_t>(static_cast<double>(frame) * grid.frame_step);
      for (int64_t row = 0; row < grid.rows; ++row) {
        for (int64_t column = 0; column < grid.columns; ++column) {
          put(start + time, start + row, start + column);
        }
      }
    }
    next_ = largest_ + 1;
  }
  RopePositions finish() {
    text_until(prompt_);
    return {std::move(positions_), static_cast<int32_t>(next_ - prompt_)};
  }

 private:
  void put(int64_t time, int64_t row, int64_t column) {
    int64_t kind = 0;
    for (const int64_t position : {time, row, column}) {
      positions_[static_cast<size_t>(kind++ * prompt_ + at_)] = static_cast<int32_t>(position);
    }
    ++at_;
    largest_ = std::max({largest_, time, row, column});
  }

  int64_t prompt_;
  std::vector<int32_t> positions_;
  int64_t at_ = 0;
  int64_t next_ = 0;
  int64_t largest_ = -1;
};

}  // namespace

RopePositions rope_positions(int64_t prompt, std::span<const ImageGrid> grids) {
  Writer writer(prompt);
  for (const ImageGrid& grid : grids) {
    writer.text_until(grid.first);
    writer.image(grid);
  }
  return writer.finish();
}

}  // namespace plimsoll::engine
