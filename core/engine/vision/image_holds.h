// Images whose embeddings the sequences of a step hold, and how far that lets them be computed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "engine/vision/image_cache.h"

namespace plimsoll::engine {

/// An image to encode into the cache's rows from `first_row` on.
struct ImageJob {
  const Image* image = nullptr;
  int64_t first_row = 0;
};

/// A sequence holds an image from the first step that computes a token of it to the last one.
class ImageHolds {
 public:
  explicit ImageHolds(ImageCache& cache) : cache_(cache) {}

  /// The least end of a piece from sequence.computed on: tokens that see each other both ways are
  /// computed in one piece.
  static int64_t needed_end(const Sequence& sequence);
  /// Holds the images in [sequence.computed, end) and returns the end that can be computed:
  /// before the first image that has no room, and not within tokens that see each other.
  int64_t hold(Sequence& sequence, int64_t end);
  /// Releases images whose tokens are all computed.
  void commit(Sequence& sequence);
  /// Releases all images of a sequence.
  void release(Sequence& sequence);
  /// The images to encode before the step runs.
  std::vector<ImageJob> take_jobs() { return std::exchange(jobs_, {}); }

 private:
  void let_go(Sequence& sequence, size_t image);

  ImageCache& cache_;
  std::vector<ImageJob> jobs_;
};

}  // namespace plimsoll::engine
