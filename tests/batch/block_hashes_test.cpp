// Which blocks of two prompts with images count as the same.
#include "batch/order/block_hashes.h"

#include <catch2/catch.hpp>

using namespace plimsoll;
using namespace plimsoll::batch;

namespace {

constexpr size_t kBlock = 4;
const TokenIds kIds(4 * kBlock, 7);

/// Hashes of a prompt of four blocks with an image that has this key, in these runs.
std::vector<uint64_t> hashes_with(uint64_t key, const std::vector<engine::ImageRun>& runs) {
  engine::Images images;
  engine::Image& image = images.items.emplace_back();
  image.key.low = key;
  image.runs = runs;
  return hash_blocks(kIds, &images, kBlock);
}

/// How many blocks two prompts share that differ in their image alone.
size_t shared(const std::vector<engine::ImageRun>& runs) {
  const std::vector<uint64_t> one = hashes_with(1, runs), other = hashes_with(2, runs);
  REQUIRE(one.size() == 4);
  REQUIRE(hashes_with(1, runs) == one);
  size_t blocks = 0;
  while (blocks < one.size() && one[blocks] == other[blocks]) ++blocks;
  for (size_t behind = blocks; behind < one.size(); ++behind) CHECK(one[behind] != other[behind]);
  return blocks;
}

}  // namespace

TEST_CASE("prompts share the blocks before their images, whatever border an image begins at") {
  const int64_t length = 4 * kBlock;
  for (int64_t first = 0; first < length; ++first) {
    for (int64_t count = 1; first + count <= length; ++count) {
      INFO("image at " << first << " of " << count);
      CHECK(shared({{first, count, 0}}) == static_cast<size_t>(first) / kBlock);
    }
  }
  CHECK(shared({{5, 2, 0}, {12, 2, 2}}) == 1);
  CHECK(shared({}) == 4);
}

TEST_CASE("an image counts in the blocks that it stands in, not in those beside it") {
  const std::vector<uint64_t> none = hash_blocks(kIds, nullptr, kBlock);
  // Up to the last token of a block and from the first of the next on.
  const std::vector<uint64_t> up_to = hashes_with(1, {{2, 2, 0}});
  const std::vector<uint64_t> over = hashes_with(1, {{2, 3, 0}});
  const std::vector<uint64_t> from = hashes_with(1, {{4, 1, 0}});
  CHECK(up_to[0] != none[0]);
  CHECK(up_to[0] == over[0]);
  CHECK(up_to[1] != over[1]);
  CHECK(from[0] == none[0]);
  CHECK(from[1] != none[1]);
  // The same places of an image's tokens, with other embeddings of it.
  CHECK(hashes_with(1, {{4, 2, 0}})[1] != hashes_with(1, {{4, 2, 2}})[1]);
}
