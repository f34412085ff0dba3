// Cache of images' embeddings: of those that prompts under way need, and of others while there is
// room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "engine/cache/hash.h"

namespace plimsoll::engine {

/// Rows of an image's embeddings in the cache.
struct CachedImage {
  int64_t first_row = 0;
  bool is_new = false;  // not encoded yet: the caller has to encode it
};

/// Places images in a matrix of `rows` rows. An image that is held stays; others are evicted
/// when room is needed, least recently used first.
class ImageCache {
 public:
  explicit ImageCache(int64_t rows) : rows_(rows) {}

  /// Holds the image once more. None when there is no room beside the images that are held.
  std::optional<CachedImage> hold(const Hash128& key, int64_t tokens);
  void release(const Hash128& key);

  [[nodiscard]] int64_t encoded() const { return encoded_; }  // number of images so far

 private:
  struct Less {
    bool operator()(const Hash128& a, const Hash128& b) const {
      return a.high != b.high ? a.high < b.high : a.low < b.low;
    }
  };
  struct Entry {
    int64_t first = 0;
    int64_t tokens = 0;
    int64_t holders = 0;
    uint64_t used = 0;
  };

  /// The first row of a gap of `tokens` rows; none when there is none.
  [[nodiscard]] std::optional<int64_t> find_gap(int64_t tokens) const;
  /// Evicts the least recently used image; false when all are held.
  bool evict_oldest();

  int64_t rows_;
  uint64_t clock_ = 0;
  int64_t encoded_ = 0;
  std::map<Hash128, Entry, Less> entries_;
};

}  // namespace plimsoll::engine
