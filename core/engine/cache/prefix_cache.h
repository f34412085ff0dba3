// Finds KV blocks by their contents: the tokens of the block after all tokens before it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/block_pool.h"
#include "engine/cache/hash.h"
#include "engine/request.h"

namespace plimsoll::engine {

/// Key of all tokens from the start of a sequence to the end of a block.
using BlockKey = Hash128;

/// Contents by which a block is found.
struct BlockContents {
  int32_t group = 0;  // KV group
  BlockKey parent;    // key of the tokens before the block
  BlockKey key;       // chain_key(parent, tokens)
  std::span<const TokenId> tokens;
};

/// The key of no tokens under a salt: sequences of different salts share nothing.
BlockKey root_key(uint64_t salt);
BlockKey chain_key(const BlockKey& parent, std::span<const TokenId> tokens);

/// Remembered blocks of a pool by contents. The parent's key and the block's own tokens are stored
/// and compared, so that no collision of one block's hash can bring wrong contents. Forgets blocks
/// that the pool evicts.
class PrefixCache {
 public:
  PrefixCache(BlockPool& pool, int64_t block_size);

  /// The block of these contents, or kNoBlock.
  [[nodiscard]] BlockId find(const BlockContents& contents) const;
  /// Remembers a shared block under its contents; does nothing when another block has equal
  /// contents.
  void insert(BlockId id, const BlockContents& contents);
  [[nodiscard]] int64_t size() const { return size_; }

 private:
  struct Entry {
    BlockKey parent;
    BlockKey key;
    int32_t group = 0;
    BlockId next = kNoBlock;  // in the same bucket
  };

  [[nodiscard]] size_t bucket(const BlockKey& key, int32_t group) const;
  [[nodiscard]] bool holds(BlockId id, const BlockContents& contents) const;
  void forget(BlockId id);

  BlockPool& pool_;
  size_t block_size_;
  std::vector<Entry> entries_;   // by block id
  std::vector<TokenId> tokens_;  // [blocks, block_size]
  std::vector<BlockId> buckets_;
  int64_t size_ = 0;
};

}  // namespace plimsoll::engine
