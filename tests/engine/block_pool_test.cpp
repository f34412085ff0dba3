#include "engine/cache/block_pool.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace plimsoll::engine;

TEST_CASE("a block is given back when its last share ends") {
  BlockPool pool(2);
  CHECK(pool.available() == 2);
  Block first = pool.allocate();
  Block copy = first;
  CHECK(pool.available() == 1);
  first = Block();
  CHECK(pool.available() == 1);
  CHECK(copy);
  copy = Block();
  CHECK(pool.available() == 2);
  CHECK(pool.used() == 0);
}

TEST_CASE("a moved block is not shared") {
  BlockPool pool(1);
  Block first = pool.allocate();
  const BlockId id = first.id();
  const Block second = std::move(first);
  CHECK_FALSE(first);
  CHECK(second.id() == id);
  CHECK(pool.used() == 1);
}

TEST_CASE("remembered blocks are taken last, the least recently used one first") {
  BlockPool pool(3);
  std::vector<BlockId> evicted;
  pool.on_evict = [&](BlockId id) { evicted.push_back(id); };
  Block a = pool.allocate();
  Block b = pool.allocate();
  Block c = pool.allocate();
  const BlockId a_id = a.id(), b_id = b.id(), c_id = c.id();
  pool.remember(a_id);
  pool.remember(b_id);
  b = Block();
  a = Block();
  c = Block();
  CHECK(pool.available() == 3);
  std::vector<Block> held = {pool.allocate()};
  CHECK(held[0].id() == c_id);
  CHECK(evicted.empty());
  held.push_back(pool.allocate());
  held.push_back(pool.allocate());
  CHECK(evicted == std::vector<BlockId>{b_id, a_id});
}

TEST_CASE("a shared idle block is no longer free to take") {
  BlockPool pool(2);
  int evictions = 0;
  pool.on_evict = [&](BlockId) { ++evictions; };
  BlockId id = kNoBlock;
  {
    const Block block = pool.allocate();
    id = block.id();
    pool.remember(id);
  }
  const Block again = pool.share(id);
  CHECK(again.id() == id);
  CHECK(pool.available() == 1);
  const Block other = pool.allocate();
  CHECK(other.id() != id);
  CHECK(evictions == 0);
  CHECK(pool.available() == 0);
}
