#include "engine/cache/prefix_cache.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace plimsoll::engine;

namespace {

const std::vector<TokenId> kFirst = {1, 2}, kSecond = {3, 4};

BlockContents after(const BlockKey& parent, const std::vector<TokenId>& tokens, int32_t group = 0) {
  return {group, parent, chain_key(parent, tokens), tokens};
}

}  // namespace

TEST_CASE("a block is found by what it holds and what came before") {
  BlockPool pool(4);
  PrefixCache cache(pool, 2);
  const Block block = pool.allocate();
  const BlockContents contents = after(root_key(0), kFirst);
  cache.insert(block.id(), contents);
  CHECK(cache.find(contents) == block.id());
  CHECK(cache.find(after(root_key(0), kSecond)) == kNoBlock);
  CHECK(cache.find(after(root_key(1), kFirst)) == kNoBlock);
  CHECK(cache.find(after(contents.key, kFirst)) == kNoBlock);
  CHECK(cache.find(after(root_key(0), kFirst, 1)) == kNoBlock);
}

TEST_CASE("equal hashes of different contents are told apart") {
  BlockPool pool(4);
  PrefixCache cache(pool, 2);
  const Block block = pool.allocate();
  const BlockContents contents = after(root_key(0), kFirst);
  cache.insert(block.id(), contents);
  BlockContents other_tokens = contents;
  other_tokens.tokens = kSecond;
  CHECK(cache.find(other_tokens) == kNoBlock);
  BlockContents other_parent = contents;
  other_parent.parent = root_key(1);
  CHECK(cache.find(other_parent) == kNoBlock);
  const Block colliding = pool.allocate();
  cache.insert(colliding.id(), other_tokens);
  CHECK(cache.find(other_tokens) == colliding.id());
  CHECK(cache.find(contents) == block.id());
}

TEST_CASE("evicted blocks are forgotten, and the first of equal blocks is kept") {
  BlockPool pool(2);
  PrefixCache cache(pool, 2);
  const BlockContents contents = after(root_key(0), kFirst);
  {
    const Block block = pool.allocate();
    const Block twin = pool.allocate();
    cache.insert(block.id(), contents);
    cache.insert(twin.id(), contents);
    CHECK(cache.find(contents) == block.id());
    CHECK(cache.size() == 1);
  }
  CHECK(cache.find(contents) != kNoBlock);
  const Block a = pool.allocate();
  CHECK(cache.size() == 1);
  const Block b = pool.allocate();
  CHECK(cache.size() == 0);
  CHECK(cache.find(contents) == kNoBlock);
}
