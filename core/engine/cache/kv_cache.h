// The KV cache as the scheduler sees it: room for tokens, and the prefixes that are stored already.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/rounding.h"
#include "engine/cache/block_pool.h"
#include "engine/cache/prefix_cache.h"
#include "engine/sequence.h"

namespace plimsoll::engine {

struct KvCacheOptions {
  int64_t blocks = 0;
  int64_t block_size = 16;
  std::vector<int64_t> windows;  // of each KV group; 0: full attention
  bool prefix_caching = true;
  int64_t state_slots = 0;  // of recurrent mixers, one for each sequence that has tables; 0: none
};

/// Block tables of sequences, over a pool. All tables of a sequence are equally long; in a group
/// with a window the entries that no later position can see are empty, and their blocks back in the
/// pool.
class KvCache {
 public:
  explicit KvCache(KvCacheOptions options);

  [[nodiscard]] const BlockPool& pool() const { return pool_; }
  [[nodiscard]] bool prefix_caching() const { return options_.prefix_caching; }
  [[nodiscard]] int64_t block_size() const { return options_.block_size; }
  /// True when not each of `sequences` can have another block in each group.
  [[nodiscard]] bool is_scarce(int64_t sequences) const {
    return pool_.available() < sequences * std::ssize(options_.windows);
  }

  /// Starts the tables of a sequence that has none, with the longest prefix that is remembered.
  /// Stops before the first position whose logits are wanted. Sets sequence.computed and attached.
  void attach(Sequence& sequence);
  /// Blocks that the sequence needs at one time, beyond those it holds, to compute positions up to
  /// `end` in steps of at most `step_tokens`.
  [[nodiscard]] int64_t blocks_needed(const Sequence& sequence, int64_t end,
                                      int64_t step_tokens) const;
  /// Blocks that nobody else had when the sequence took them.
  [[nodiscard]] int64_t blocks_held(const Sequence& sequence) const;
  /// The largest end that extend() can be asked for now.
  [[nodiscard]] int64_t reachable_end(const Sequence& sequence) const;
  /// Makes room for positions before `end`, at most reachable_end(), and remembers the full blocks
  /// among them whose tokens are known. The next step must compute these positions. A
  /// sequence that is attached later may join that step and share the blocks, because each layer
  /// stores the keys and values of all rows before any row attends.
  void extend(Sequence& sequence, int64_t end);
  /// Notes that positions before `end` are computed, in the order of steps; then applies the
  /// sequence.
  void commit(Sequence& sequence, int64_t end);
  /// Remembers full blocks whose last token has become known, and returns blocks that no later
  /// position can see to the pool.
  void apply_token(Sequence& sequence);
  /// Returns all blocks of a sequence to the pool; nothing counts as computed any more.
  void release(Sequence& sequence);

 private:
  /// Remembers the full blocks before `end` of which all tokens are known.
  void remember(Sequence& sequence, int64_t end);
  [[nodiscard]] size_t groups() const { return options_.windows.size(); }
  [[nodiscard]] int64_t blocks_of(int64_t tokens) const {
    return divide_up(tokens, options_.block_size);
  }
  /// First block that a query at `position` sees in a group.
  [[nodiscard]] int64_t first_visible_block(size_t group, int64_t position) const;
  [[nodiscard]] std::span<const TokenId> block_tokens(const Sequence& sequence, int64_t block);
  /// Contents of a full block of the sequence; valid until the next call.
  [[nodiscard]] BlockContents contents(Sequence& sequence, size_t group, int64_t block);
  [[nodiscard]] int64_t matched_blocks(Sequence& sequence, int64_t limit);
  [[nodiscard]] int64_t window_match(Sequence& sequence, int64_t limit);

  KvCacheOptions options_;
  BlockPool pool_;
  PrefixCache prefixes_;
  std::vector<TokenId> block_tokens_;  // tokens of one block, between calls
  std::vector<int32_t> free_slots_;    // the lowest last
};

}  // namespace plimsoll::engine
