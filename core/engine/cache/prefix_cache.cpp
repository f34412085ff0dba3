#include "engine/cache/prefix_cache.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace plimsoll::engine {

BlockKey root_key(uint64_t salt) {
  return siphash128({salt, 0}, {});
}

BlockKey chain_key(const BlockKey& parent, std::span<const TokenId> tokens) {
  return siphash128(parent, std::as_bytes(tokens));
}

PrefixCache::PrefixCache(BlockPool& pool, int64_t block_size)
    : pool_(pool),
      block_size_(block_size),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max<int64_t>(pool.total(), 1))), kNoBlock) {
  pool_.on_evict = [this](BlockId id) { forget(id); };
}

BlockId PrefixCache::find(const BlockContents& contents) const {
  BlockId id = buckets_[bucket(contents.key, contents.group)];
  while (id != kNoBlock && !holds(id, contents)) id = entries_[id].next;
  return id;
}

void PrefixCache::insert(BlockId id, const BlockContents& contents) {
  assert(contents.tokens.size() == block_size_);
  if (find(contents) != kNoBlock) return;
  const auto index = static_cast<size_t>(id);
  if (entries_.size() <= index) {
    entries_.resize(index + 1);
    tokens_.resize((index + 1) * block_size_);
  }
  BlockId& first = buckets_[bucket(contents.key, contents.group)];
  entries_[index] = {contents.parent, contents.key, contents.group, first};
  std::ranges::copy(contents.tokens, tokens_.data() + index * block_size_);
  first = id;
  ++size_;
  pool_.remember(id);
}

size_t PrefixCache::bucket(const BlockKey& key, int32_t group) const {
  return (key.low + static_cast<size_t>(group)) & (buckets_.size() - 1);
}

bool PrefixCache::holds(BlockId id, const BlockContents& contents) const {
  const Entry& entry = entries_[id];
  return entry.key == contents.key && entry.group == contents.group &&
         entry.parent == contents.parent &&
         std::equal(contents.tokens.begin(), contents.tokens.end(),
                    tokens_.data() + id * block_size_);
}

void PrefixCache::forget(BlockId id) {
  const Entry& entry = entries_[id];
  BlockId* link = &buckets_[bucket(entry.key, entry.group)];
  while (*link != id) link = &entries_[*link].next;
  *link = entry.next;
  --size_;
}

}  // namespace plimsoll::engine
