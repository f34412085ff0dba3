// Embeddings of pictures that prompts under way need, and of others while there is room.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "engine/cache/hash.h"

namespace plimsoll::engine {

/// Rows of a picture's embeddings in the cache.
struct CachedPicture {
  int64_t first_row = 0;
  bool is_new = false;  // not there yet: whoever asked has to encode it
};

/// Places pictures in a matrix of so many rows. A picture that somebody holds stays; others go when
/// room is needed, those that were used longest ago first.
class PictureCache {
 public:
  explicit PictureCache(int64_t rows) : rows_(rows) {}

  /// Holds the picture once more. Nothing when there is no room beside those that are held.
  std::optional<CachedPicture> hold(const Hash128& key, int64_t tokens);
  void release(const Hash128& key);

  [[nodiscard]] int64_t encoded() const { return encoded_; }  // pictures, so far

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

  /// The first row of a gap of `tokens` rows; nothing when there is none.
  [[nodiscard]] std::optional<int64_t> find_gap(int64_t tokens) const;
  /// False when all that is there is held.
  bool evict_oldest();

  int64_t rows_;
  uint64_t clock_ = 0;
  int64_t encoded_ = 0;
  std::map<Hash128, Entry, Less> entries_;
};

}  // namespace plimsoll::engine
