#include "engine/cache/kv_cache.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

using namespace plimsoll::engine;

TEST_CASE("a window's blocks stay for the token behind the known ones, however long a draft is") {
  constexpr int64_t kBlock = 2;
  std::vector<TokenId> prompt(12);
  std::iota(prompt.begin(), prompt.end(), 1);
  for (const int64_t window : {1, 2, 3, 4, 5, 30}) {
    for (int64_t drafted = 0; drafted < 8; ++drafted) {
      INFO("window " << window << ", draft of " << drafted);
      KvCache cache({.blocks = 30, .block_size = kBlock, .windows = {0, window}});
      Sequence sequence;
      sequence.prompt = prompt;
      cache.attach(sequence);
      cache.extend(sequence, 12);
      cache.commit(sequence, 12);
      const auto check_held = [&](int64_t position) {
        const BlockTable& table = sequence.tables[1];
        const auto first =
            static_cast<size_t>(std::max<int64_t>(0, position - window + 1) / kBlock);
        CHECK(static_cast<size_t>(table.released) == std::min(first, table.blocks.size()));
        for (size_t block = 0; block < table.blocks.size(); ++block) {
          CHECK((table.blocks[block].id() == kNoBlock) == (block < first));
        }
      };
      check_held(12);
      // A step computes the drawn token and a draft, which is refused: the next step begins behind
      // the drawn token.
      sequence.output.push_back(50);
      const int64_t end = 13 + drafted;
      cache.extend(sequence, end);
      cache.commit(sequence, end);
      check_held(13);
      CHECK(sequence.tables[0].released == 0);
      // Had it been kept, the blocks could go as its tokens are known.
      for (int64_t token = 0; token < drafted; ++token) {
        sequence.output.push_back(60);
        cache.apply_token(sequence);
        check_held(14 + token);
      }
    }
  }
}
