// The order of a frame's merged patches in which each window is a run (Qwen2.5-VL).
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::engine {

struct WindowOrder {
  std::vector<int32_t> units;    // [units] merged patches, window by window
  std::vector<int64_t> lengths;  // of the windows, in merged patches
};

/// Windows of window x window merged patches in a frame of rows x columns, cut short at the edges,
/// row by row; a window of 0 is the whole frame.
WindowOrder window_order(int64_t rows, int64_t columns, int64_t window);

}  // namespace plimsoll::engine
