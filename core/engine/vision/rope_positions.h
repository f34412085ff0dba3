// Positions by kind of prompts with images (Wang et al. 2024, "Qwen2-VL"): times, rows, columns.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll::engine {

/// An image's or video's tokens in the prompt, frame by frame, row by row.
struct ImageGrid {
  int64_t first = 0;  // position in the prompt
  int64_t frames = 1, rows = 0, columns = 0;
  double frame_step = 0;  // from a frame's time to the next one's
};

struct RopePositions {
  std::vector<int32_t> positions;  // [3, prompt]
  int32_t delta = 0;               // for tokens after the prompt
};

/// Positions of a prompt. Text counts on in all kinds; after an image from the largest position in
/// it.
RopePositions rope_positions(int64_t prompt, std::span<const ImageGrid> grids);

}  // namespace plimsoll::engine
