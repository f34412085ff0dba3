#include "engine/cache/prefix_cache.h"

#include <catch2/catch.hpp>
#include <vector>

#include "engine/cache/kv_cache.h"

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

TEST_CASE("sequences that start in one step compute their prefix once") {
  for (const bool shares : {true, false}) {
    KvCache cache({.blocks = 10, .block_size = 2, .windows = {0}, .prefix_caching = shares});
    const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7};
    Sequence first, second, third;
    for (Sequence* sequence : {&first, &second, &third}) sequence->prompt = prompt;
    cache.attach(first);
    cache.extend(first, 5);  // as far as the step computes it; nothing is committed yet
    cache.attach(second);
    CHECK(second.computed == (shares ? 4 : 0));
    cache.extend(second, 7);
    cache.attach(third);
    CHECK(third.computed == (shares ? 6 : 0));
    CHECK(cache.pool().used() == (shares ? 3 + 2 : 3 + 4));
    first.output.push_back(8);
    cache.commit(first, 5);
    cache.commit(second, 7);
    second.output.push_back(9);
    cache.extend(second, 8);  // a block of prompt and answer
    second.output.push_back(9);
    cache.release(third);
    third.prompt = second.prompt;
    third.output = second.output;
    cache.attach(third);
    CHECK(third.computed == (shares ? 8 : 0));
  }
}

TEST_CASE("a step's blocks are shared where groups have windows too") {
  KvCache cache({.blocks = 20, .block_size = 2, .windows = {0, 3}});
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Sequence first, second;
  first.prompt = second.prompt = prompt;
  cache.attach(first);
  cache.extend(first, 9);
  cache.attach(second);
  CHECK(second.computed == 8);
  CHECK(second.tables[1].released == 3);  // position 8 sees 6 and later: block 3
  cache.commit(first, 9);
  CHECK(first.tables[1].released == 3);
  cache.extend(second, 9);
  CHECK(cache.pool().used() == 5 + 2 + 1 + 1);
}
