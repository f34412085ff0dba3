#include "engine/cache/block_pool.h"

#include <cassert>

namespace plimsoll::engine {

Block::Block(const Block& other) : pool_(other.pool_), id_(other.id_) {
  if (pool_ != nullptr) ++pool_->slot(id_).shares;
}

Block::~Block() {
  if (pool_ != nullptr) pool_->release(id_);
}

Block BlockPool::allocate() {
  assert(available() > 0);
  BlockId id = kNoBlock;
  if (!free_.empty()) {
    id = free_.back();
    free_.pop_back();
  } else if (touched() < total_) {
    id = static_cast<BlockId>(touched());
    slots_.emplace_back();
  } else {
    id = evict_oldest();
  }
  slot(id).shares = 1;
  return Block(this, id);
}

Block BlockPool::share(BlockId id) {
  Slot& shared = slot(id);
  assert(shared.shares > 0 || shared.remembered);
  if (shared.shares == 0) unlink_idle(id);
  ++shared.shares;
  return Block(this, id);
}

void BlockPool::release(BlockId id) {
  Slot& released = slot(id);
  assert(released.shares > 0);
  if (--released.shares > 0) return;
  if (!released.remembered) {
    free_.push_back(id);
    return;
  }
  released.older = newest_idle_;
  released.newer = kNoBlock;
  (newest_idle_ == kNoBlock ? oldest_idle_ : slot(newest_idle_).newer) = id;
  newest_idle_ = id;
  ++idle_count_;
}

BlockId BlockPool::evict_oldest() {
  const BlockId id = oldest_idle_;
  unlink_idle(id);
  slot(id).remembered = false;
  if (on_evict) on_evict(id);
  return id;
}

void BlockPool::unlink_idle(BlockId id) {
  const Slot& gone = slot(id);
  (gone.older == kNoBlock ? oldest_idle_ : slot(gone.older).newer) = gone.newer;
  (gone.newer == kNoBlock ? newest_idle_ : slot(gone.newer).older) = gone.older;
  --idle_count_;
}

}  // namespace plimsoll::engine
