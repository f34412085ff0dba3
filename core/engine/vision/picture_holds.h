// Pictures whose embeddings the sequences of a step hold, and how far that lets them be computed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "engine/vision/picture_cache.h"

namespace plimsoll::engine {

/// A picture to encode into the cache's rows from `first_row` on.
struct PictureJob {
  const Picture* picture = nullptr;
  int64_t first_row = 0;
};

/// A sequence holds a picture from the first step that computes a token of it to the last one.
class PictureHolds {
 public:
  explicit PictureHolds(PictureCache& cache) : cache_(cache) {}

  /// The least end of a piece from sequence.computed on: tokens that see each other both ways are
  /// computed in one piece.
  static int64_t needed_end(const Sequence& sequence);
  /// Holds the pictures in [sequence.computed, end) and returns the end that can be computed:
  /// before the first picture that has no room, and not within tokens that see each other.
  int64_t hold(Sequence& sequence, int64_t end);
  /// Releases pictures whose tokens are all computed.
  void commit(Sequence& sequence);
  /// Releases all pictures of a sequence.
  void release(Sequence& sequence);
  /// The pictures to encode before the step runs.
  std::vector<PictureJob> take_jobs() { return std::exchange(jobs_, {}); }

 private:
  void let_go(Sequence& sequence, size_t picture);

  PictureCache& cache_;
  std::vector<PictureJob> jobs_;
};

}  // namespace plimsoll::engine
