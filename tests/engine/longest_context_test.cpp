// The longest context whose own steps leave room for a sequence of its length.
#include "engine/longest_context.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <random>

using plimsoll::engine::longest_context;

TEST_CASE("the longest context is found to a block, whatever steps take of the cache") {
  struct Row {
    const char* what;
    int64_t most, block;
    std::function<int64_t(int64_t)> held;
    int64_t longest;
  };
  const auto blocks = [](int64_t tokens) { return tokens / 16 * 16; };
  for (const Row& row : {
           Row{"steps take the same at any length", 4096, 16, [](int64_t) { return 1600; }, 1600},
           Row{"a thousandth of the length", 131072, 16,
               [&](int64_t length) { return blocks(50000 - length / 1000); }, 49936},
           Row{"as much as the length", 4096, 16,
               [&](int64_t length) { return blocks(2048 - length); }, 1024},
           Row{"images beyond 8000 tokens", 128000, 16,
               [&](int64_t length) { return length > 8000 ? 2000 : 20000; }, 8000},
           Row{"no length has room", 131072, 16, [](int64_t) { return 0; }, 0},
           Row{"the whole length has none", 131072, 16,
               [](int64_t length) { return length > 5000 ? 0 : 4992; }, 4992},
           Row{"less than a block", 10, 16, [](int64_t length) { return length > 6 ? 6 : 10; }, 6},
       }) {
    INFO(row.what);
    int calls = 0;
    const auto counted = [&](int64_t length) {
      ++calls;
      return std::min(row.held(length), row.most);
    };
    const int64_t found = longest_context(row.most, counted(row.most), row.block, counted);
    CHECK(found == row.longest);
    CHECK(calls < 24);
  }
}

TEST_CASE("of any falling room the longest context fits and a block more does not") {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto most = static_cast<int64_t>(1 + random() % 100000);
    const auto block = static_cast<int64_t>(1 + random() % 64);
    const auto slope = static_cast<int64_t>(random() % 1000),
               room = static_cast<int64_t>(random() % 120000);
    const auto step = static_cast<int64_t>(random() % 100000),
               fall = static_cast<int64_t>(random() % 60000);
    const auto held = [&](int64_t length) {
      const int64_t left = room - length * slope / 300 - (length > step ? fall : 0);
      return std::min(most, std::max<int64_t>(0, left) / block * block);
    };
    if (held(most) >= most) continue;
    INFO("round " << round);
    const int64_t found = longest_context(most, held(most), block, held);
    CHECK((found == 0 || held(found) >= found));
    const int64_t more = found + block;
    CHECK((more >= most || held(more) < more));
  }
}
