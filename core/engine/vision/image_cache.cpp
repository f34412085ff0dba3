#include "engine/vision/image_cache.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace plimsoll::engine {

std::optional<CachedImage> ImageCache::hold(const Hash128& key, int64_t tokens) {
  ++clock_;
  if (const auto at = entries_.find(key); at != entries_.end()) {
    ++at->second.holders;
    at->second.used = clock_;
    return CachedImage{at->second.first, false};
  }
  std::optional<int64_t> gap = find_gap(tokens);
  while (!gap && evict_oldest()) gap = find_gap(tokens);
  if (!gap) return std::nullopt;
  entries_[key] = {*gap, tokens, 1, clock_};
  ++encoded_;
  return CachedImage{*gap, true};
}

void ImageCache::release(const Hash128& key) {
  --entries_.at(key).holders;
}

std::optional<int64_t> ImageCache::find_gap(int64_t tokens) const {
  std::vector<std::pair<int64_t, int64_t>> taken;  // first, end
  for (const auto& [key, entry] : entries_) {
    taken.emplace_back(entry.first, entry.first + entry.tokens);
  }
  std::ranges::sort(taken);
  int64_t at = 0;
  for (const auto& [first, end] : taken) {
    if (first - at >= tokens) return at;
    at = end;
  }
  return rows_ - at >= tokens ? std::optional(at) : std::nullopt;
}

bool ImageCache::evict_oldest() {
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->second.holders > 0) continue;
    if (oldest == entries_.end() || at->second.used < oldest->second.used) oldest = at;
  }
  if (oldest == entries_.end()) return false;
  entries_.erase(oldest);
  return true;
}

}  // namespace plimsoll::engine
