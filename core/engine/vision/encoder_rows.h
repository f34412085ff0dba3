// The order of an image's patches in an image encoder, and which patches see each other.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/vision/windows.h"
#include "image/pixels.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

struct EncoderRows {
  /// Lengths of frames, whose rows see each other, one after the other; empty: no layers.
  std::vector<int64_t> frames;
  std::vector<int64_t> windows;  // lengths of windows, for layers that see these; empty: none does
  /// [2 * rows] for all rows the row in the image, then the column; empty: nothing is rotated.
  std::vector<int32_t> places;
  /// Order of rows. For a tile: the rows that become embeddings, blocks of merged ones one after
  /// the other. For a frame: the place of each merged row in the order of windows.
  std::vector<int32_t> order;
};

/// Rows of a square tile; all tiles are alike.
EncoderRows tile_rows(const model::VisionSpec& spec);
/// Rows of a frame of an image of any size, in the order of `windows`.
EncoderRows frame_rows(const model::VisionSpec& spec, const image::Layout& layout,
                       const WindowOrder& windows);

}  // namespace plimsoll::engine
