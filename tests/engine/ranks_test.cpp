// Threads as ranks: what passes between them, and what becomes of all when one fails.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <numeric>
#include <string>

#include "engine/ranks/crew.h"
#include "engine/ranks/shared_world.h"

using namespace plimsoll::engine;

namespace {

using Bytes = std::array<std::byte, 1000>;

Bytes bytes_of(int seed) {
  Bytes bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(static_cast<size_t>(seed) * 31 + i * 7);
  }
  return bytes;
}

}  // namespace

TEST_CASE("what one rank sends the next receives, round after round") {
  constexpr int kRanks = 4;
  SharedWorld world(kRanks);
  Crew crew(kRanks, [&] { world.give_up(); });
  for (int round = 0; round < 200; ++round) {
    Bytes last{};
    crew.run([&](int64_t rank) {
      Bytes own = bytes_of(round);
      if (rank > 0) {
        own.fill(std::byte{0});
        world.rank(rank).receive(rank - 1, own);
      }
      if (rank + 1 < kRanks) world.rank(rank).send(rank + 1, own);
      if (rank + 1 == kRanks) last = own;
    });
    REQUIRE(last == bytes_of(round));
  }
}

TEST_CASE("the first error of a rank ends all at once, whoever waits for whom") {
  constexpr int kRanks = 4;
  for (int failing = 0; failing < kRanks; ++failing) {
    SharedWorld world(kRanks);
    std::atomic<int> lost = 0;
    Crew crew(kRanks, [&] { world.give_up(); });
    const auto begin = std::chrono::steady_clock::now();
    const auto job = [&](int64_t rank) {
      if (rank == failing) throw std::runtime_error("broken " + std::to_string(rank));
      Bytes bytes{};
      try {  // a ring in which nobody sends
        world.rank(rank).receive((rank + 1) % kRanks, bytes);
      } catch (const RankLost&) {
        ++lost;
        throw;
      }
    };
    CHECK_THROWS_WITH(crew.run(job), "broken " + std::to_string(failing));
    CHECK(lost == kRanks - 1);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
    // Later calls do not wait for what will never come.
    CHECK_THROWS_AS(crew.run([&](int64_t rank) {
      const Bytes bytes{};
      world.rank(rank).send((rank + 1) % kRanks, bytes);
    }),
                    RankLost);
  }
}
