#include "batch/images/workers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

#include "recorder/thread_limit.h"

using namespace plimsoll;
using batch::Workers;

TEST_CASE("decoders under way keep within their bytes, or one is alone") {
  std::atomic<int> bytes = 0, most = 0, done = 0;
  {
    Workers workers(4, 100);
    for (int i = 0; i < 40; ++i) {
      const int own = i % 4 == 0 ? 150 : 40;
      workers.add(
          [&, own] {
            most = std::max(most.load(), bytes += own);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            bytes -= own;
            ++done;
          },
          static_cast<size_t>(own));
    }
    while (done < 40) std::this_thread::yield();
  }
  CHECK(most == 150);
}

TEST_CASE("a system with too few threads for the decoders is told, and ends nothing else") {
  for (int most = 0; most < 4; ++most) {
    const test::ThreadLimit limit(most);
    CHECK_THROWS_AS(Workers(4, 100), std::system_error);
  }
  std::atomic<int> done = 0;
  {
    Workers workers(4, 100);
    workers.add([&] { ++done; }, 1);
    while (done < 1) std::this_thread::yield();
  }
  CHECK(done == 1);
}

TEST_CASE("decoders begin in the order in which their images come") {
  std::vector<int> begun;  // by the only thread
  std::atomic<int> done = 0;
  std::promise<void> go;
  {
    Workers workers(1, 1000);
    workers.add([waits = go.get_future().share()] { waits.wait(); }, 1);
    for (int i = 0; i < 20; ++i) {
      workers.add(
          [&, i] {
            begun.push_back(i);
            ++done;
          },
          1);
    }
    go.set_value();
    while (done < 20) std::this_thread::yield();
  }
  std::vector<int> in_order(20);
  std::iota(in_order.begin(), in_order.end(), 0);
  CHECK(begun == in_order);
  // Without threads the caller does the work at once.
  Workers none(0, 1000);
  none.add([&] { ++done; }, 1);
  CHECK(done == 21);
}
