#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace plimsoll::engine {
namespace {

/// The key of a block's tokens with the images whose embeddings stand in [first, end).
BlockKey with_images(BlockKey key, const Sequence& sequence, int64_t first, int64_t end) {
  if (sequence.images == nullptr) return key;
  for (const Image& image : sequence.images->items) {
    for (const ImageRun& run : image.runs) {
      if (run.end() <= first || run.first >= end) continue;
      const std::array<uint64_t, 4> words = {image.key.low, image.key.high,
                                             static_cast<uint64_t>(run.embedding),
                                             static_cast<uint64_t>(run.first)};
      key = siphash128(key, std::as_bytes(std::span(words)));
    }
  }
  return key;
}

}  // namespace

KvCache::KvCache(KvCacheOptions options)
    : options_(std::move(options)),
      pool_(options_.blocks),
      prefixes_(pool_, options_.block_size),
      block_tokens_(options_.block_size) {
  for (int64_t slot = options_.state_slots; slot-- > 0;) {
    free_slots_.push_back(static_cast<int32_t>(slot));
  }
}

int64_t KvCache::first_visible_block(size_t group, int64_t position) const {
  const int64_t window = options_.windows[group];
  if (window == 0) return 0;
  return std::max<int64_t>(0, position - window + 1) / options_.block_size;
}

std::span<const TokenId> KvCache::block_tokens(const Sequence& sequence, int64_t block) {
  const int64_t first = block * options_.block_size;
  for (int64_t i = 0; i < options_.block_size; ++i) {
    block_tokens_[i] = sequence.token(first + i);
  }
  return block_tokens_;
}

// Keys are made when they are first needed; tokens never change, so they stay good.
BlockContents KvCache::contents(Sequence& sequence, size_t group, int64_t block) {
  std::vector<BlockKey>& keys = sequence.keys;
  const auto parent = [&](int64_t of) {
    return of == 0 ? root_key(sequence.long_rope ? 1 : 0) : keys[of - 1];
  };
  for (auto next = static_cast<int64_t>(keys.size()); next <= block; ++next) {
    const BlockKey of_tokens = chain_key(parent(next), block_tokens(sequence, next));
    keys.push_back(with_images(of_tokens, sequence, next * options_.block_size,
                               (next + 1) * options_.block_size));
  }
  return {static_cast<int32_t>(group), parent(block), keys[block], block_tokens(sequence, block)};
}

void KvCache::attach(Sequence& sequence) {
  assert(sequence.tables.empty());
  sequence.tables.resize(groups());
  ++sequence.table_version;
  sequence.attached = 0;
  if (options_.state_slots > 0) {
    sequence.state_slot = free_slots_.back();
    free_slots_.pop_back();
  }
  if (!options_.prefix_caching) return;
  const int64_t limit = sequence.first_logits_position() / options_.block_size;
  const int64_t matched = matched_blocks(sequence, limit);
  for (size_t group = 0; group < groups(); ++group) {
    BlockTable& table = sequence.tables[group];
    table.blocks.resize(matched);
    table.released = std::min(matched, first_visible_block(group, matched * options_.block_size));
    for (int64_t block = table.released; block < matched; ++block) {
      const BlockId id = prefixes_.find(contents(sequence, group, block));
      table.blocks[block] = pool_.share(id);
    }
  }
  sequence.remembered = matched;
  sequence.attached = matched;
  sequence.computed = matched * options_.block_size;
}

// Groups of full attention need every block, so the first one that is missing ends the search.
int64_t KvCache::matched_blocks(Sequence& sequence, int64_t limit) {
  for (size_t group = 0; group < groups(); ++group) {
    if (options_.windows[group] != 0) continue;
    int64_t found = 0;
    while (found < limit) {
      if (prefixes_.find(contents(sequence, group, found)) == kNoBlock) break;
      ++found;
    }
    limit = found;
  }
  return window_match(sequence, limit);
}

// The longest prefix of at most `limit` blocks whose last blocks, as far as the next position sees
// them, are there in each group that has a window.
int64_t KvCache::window_match(Sequence& sequence, int64_t limit) {
  const bool any_window = std::ranges::any_of(options_.windows, [](int64_t w) { return w != 0; });
  if (!any_window || limit == 0) return limit;
  std::vector<int64_t> run(groups(), 0);  // found blocks in a row, up to here
  int64_t best = 0;
  for (int64_t end = 1; end <= limit; ++end) {
    bool all = true;
    for (size_t group = 0; group < groups(); ++group) {
      if (options_.windows[group] == 0) continue;
      const bool there = prefixes_.find(contents(sequence, group, end - 1)) != kNoBlock;
      run[group] = there ? run[group] + 1 : 0;
      const int64_t first = first_visible_block(group, end * options_.block_size);
      all = all && run[group] >= end - std::min(end, first);
    }
    if (all) best = end;
  }
  return best;
}

int64_t KvCache::blocks_needed(const Sequence& sequence, int64_t end, int64_t step_tokens) const {
  int64_t needed = 0;
  for (size_t group = 0; group < groups(); ++group) {
    const BlockTable& table = sequence.tables[group];
    const auto length = static_cast<int64_t>(table.blocks.size());
    int64_t peak = blocks_of(end) - table.released;
    if (options_.windows[group] != 0) {
      // A step's own tokens and the window before its first one, both cut by block borders.
      peak = std::min(peak, blocks_of(options_.windows[group] - 1 + step_tokens) + 1);
    }
    needed += std::max<int64_t>(0, peak - (length - table.released));
  }
  return needed;
}

int64_t KvCache::blocks_held(const Sequence& sequence) const {
  int64_t held = 0;
  for (const BlockTable& table : sequence.tables) {
    const int64_t first = std::max(table.released, sequence.attached);
    held += std::max<int64_t>(0, std::ssize(table.blocks) - first);
  }
  return held;
}

int64_t KvCache::reachable_end(const Sequence& sequence) const {
  const auto length = static_cast<int64_t>(sequence.tables.front().blocks.size());
  const int64_t more = pool_.available() / static_cast<int64_t>(groups());
  return (length + more) * options_.block_size;
}

void KvCache::extend(Sequence& sequence, int64_t end) {
  const auto wanted = static_cast<size_t>(blocks_of(end));
  for (BlockTable& table : sequence.tables) {
    while (table.blocks.size() < wanted) table.blocks.push_back(pool_.allocate());
  }
  remember(sequence, end);
}

void KvCache::remember(Sequence& sequence, int64_t end) {
  if (!options_.prefix_caching) return;
  const int64_t full = std::min(end, sequence.known_length()) / options_.block_size;
  for (; sequence.remembered < full; ++sequence.remembered) {
    for (size_t group = 0; group < groups(); ++group) {
      const auto block = static_cast<size_t>(sequence.remembered);
      prefixes_.insert(sequence.tables[group].blocks[block].id(),
                       contents(sequence, group, sequence.remembered));
    }
  }
}

void KvCache::commit(Sequence& sequence, int64_t end) {
  sequence.computed = end;
  apply_token(sequence);
}

void KvCache::apply_token(Sequence& sequence) {
  if (sequence.tables.empty()) return;
  remember(sequence, sequence.computed);
  const int64_t end = std::min(sequence.computed, sequence.known_length());
  for (size_t group = 0; group < groups(); ++group) {
    BlockTable& table = sequence.tables[group];
    const int64_t first =
        std::min(first_visible_block(group, end), static_cast<int64_t>(table.blocks.size()));
    for (; table.released < first; ++table.released) {
      table.blocks[table.released] = Block();
    }
  }
}

void KvCache::release(Sequence& sequence) {
  // Later blocks go first: they become the oldest idle ones and are evicted before the blocks that
  // they depend on.
  while (!sequence.tables.empty() && !sequence.tables.front().blocks.empty()) {
    for (BlockTable& table : sequence.tables) table.blocks.pop_back();
  }
  sequence.tables.clear();
  if (sequence.state_slot >= 0) free_slots_.push_back(std::exchange(sequence.state_slot, -1));
  sequence.computed = 0;
  sequence.remembered = 0;
}

}  // namespace plimsoll::engine
