// Images as vision towers get them: grey levels, and tables that turn levels into values.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "image/levels.h"

namespace plimsoll::image {

/// Shape and tokens of one image, or of the frames of one video.
struct Layout {
  std::vector<int64_t> shape;  // of the values
  int64_t tokens = 0;          // embeddings, placeholders of the prompt
  int64_t tiles = 1;           // squares that the tower sees one by one, the whole image included
  /// The grid of tiles, 0 where the image is not cut; for Qwen the grid of patches, and frames in
  /// pairs.
  int64_t rows = 0, columns = 0;
  int64_t frames = 1;
  double frame_seconds = 1;  // of a video: from one pair of frames to the next
  /// Values of a channel that belong to as many frames with equal levels, stored once (Qwen's
  /// images).
  int64_t repeats = 1;

  [[nodiscard]] int64_t values() const;
  [[nodiscard]] int64_t levels() const { return values() / repeats; }
};

/// Value of each level: for each channel [256].
using LevelTables = std::array<std::array<float, 256>, 3>;

/// Grey levels in the order of the values: only a table look-up is left for each.
struct Pixels {
  Layout layout;
  Levels levels;
  std::shared_ptr<const LevelTables> tables = nullptr;
  int64_t channel_run = 0;  // consecutive values of one channel, repeated ones included

  /// Writes the values of [first, first + count), both multiples of three runs.
  void write_values(int64_t first, int64_t count, float* to) const;
  /// Writes the values of tile `tile`, a row for each patch of patch x patch pixels: [patches, 3 *
  /// patch * patch], channels first.
  void write_patches(int64_t tile, int64_t patch, float* to) const;
};

}  // namespace plimsoll::image
