#include "backend/cpu/thread_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

using namespace plimsoll;

TEST_CASE("a thread pool runs every task once and passes exceptions on") {
  constexpr int64_t kMany = 1 << 30;
  for (const int threads : {1, 2, 5}) {
    backend::ThreadPool pool(threads);
    for (int64_t tasks = 0; tasks < 200; ++tasks) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      pool.run(tasks, kMany, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
      for (const auto& count : runs) REQUIRE(count == 1);
    }
    CHECK_THROWS_AS(pool.run(50, kMany,
                             [](int64_t task, int) {
                               if (task > 30) throw std::runtime_error("task");
                             }),
                    std::runtime_error);
    std::atomic<int> after = 0;
    pool.run(50, kMany, [&](int64_t, int) { ++after; });
    CHECK(after == 50);
  }
}
