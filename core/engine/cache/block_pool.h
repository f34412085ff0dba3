// The pool of KV blocks. A block is a handle: a copy is a further share, and the end of the last
// share returns the block to the pool.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace plimsoll::engine {

using BlockId = int32_t;
inline constexpr BlockId kNoBlock = -1;

class BlockPool;

/// A share of one block of a pool, or none. The pool must outlive it.
class Block {
 public:
  Block() = default;
  Block(const Block& other);
  Block(Block&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), id_(std::exchange(other.id_, kNoBlock)) {}
  Block& operator=(Block other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    return *this;
  }
  ~Block();

  [[nodiscard]] BlockId id() const { return id_; }
  explicit operator bool() const { return pool_ != nullptr; }

 private:
  friend class BlockPool;
  Block(BlockPool* pool, BlockId id) : pool_(pool), id_(id) {}

  BlockPool* pool_ = nullptr;
  BlockId id_ = kNoBlock;
};

/// Counts shares and keeps the free blocks. A remembered block (one that the prefix cache can find)
/// keeps its contents when its last share ends, until it is the least recently used one and a block
/// is needed.
class BlockPool {
 public:
  explicit BlockPool(int64_t blocks) : total_(blocks) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Called with a remembered block whose contents are about to be lost.
  std::function<void(BlockId)> on_evict;

  [[nodiscard]] int64_t total() const { return total_; }
  /// Blocks that nobody shares, remembered ones included.
  [[nodiscard]] int64_t available() const {
    return total_ - touched() + static_cast<int64_t>(free_.size()) + idle_count_;
  }
  [[nodiscard]] int64_t used() const { return total_ - available(); }

  /// Takes a block with no other share and no contents; needs available() > 0. Takes an
  /// unremembered block while there is one.
  Block allocate();
  /// Takes a further share of a block that is shared or remembered.
  Block share(BlockId id);
  /// Notes that the block's contents can be found from now on; it must be shared.
  void remember(BlockId id) { slot(id).remembered = true; }

 private:
  friend class Block;
  struct Slot {
    int32_t shares = 0;
    BlockId older = kNoBlock;  // neighbours in the list of idle blocks
    BlockId newer = kNoBlock;
    bool remembered = false;
  };

  [[nodiscard]] Slot& slot(BlockId id) { return slots_[id]; }
  [[nodiscard]] int64_t touched() const { return static_cast<int64_t>(slots_.size()); }
  void release(BlockId id);
  BlockId evict_oldest();
  void unlink_idle(BlockId id);

  int64_t total_;
  std::vector<Slot> slots_;    // of blocks used so far: a large pool costs nothing until it is used
  std::vector<BlockId> free_;  // returned to the pool, not remembered
  BlockId oldest_idle_ = kNoBlock;  // remembered, not shared
  BlockId newest_idle_ = kNoBlock;
  int64_t idle_count_ = 0;
};

}  // namespace plimsoll::engine
