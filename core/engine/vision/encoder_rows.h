// How a picture's patches go through an image encoder: in which order, and which see each other.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/vision/windows.h"
#include "image/pixels.h"
#include "model/vision_spec.h"

namespace plimsoll::engine {

struct EncoderRows {
  std::vector<int64_t> frames;   // rows that see each other, one after the other; empty: no layers
  std::vector<int64_t> windows;  // likewise in layers that see windows; empty: none does
  /// [2 * rows] of all rows the row of the picture, then its column; empty: nothing is rotated.
  std::vector<int32_t> places;
  /// Of a tile: the rows that become embeddings, blocks of merged ones one after the other. Else
  /// where in the order of windows each merged row is.
  std::vector<int32_t> order;
};

/// Of a square tile, as every one is.
EncoderRows tile_rows(const model::VisionSpec& spec);
/// Of a frame of a picture of any size; rows are in the order of `windows`.
EncoderRows frame_rows(const model::VisionSpec& spec, const image::Layout& layout,
                       const WindowOrder& windows);

}  // namespace plimsoll::engine
