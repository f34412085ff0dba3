#include "base/threads.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <system_error>
#include <thread>

#include "recorder/thread_limit.h"

using namespace plimsoll;

namespace {

// Threads that note who they are and stay until `told`.
struct Waiting {
  std::atomic<int> begun{0};
  std::atomic<bool> told{false};
  std::atomic<int64_t> names{0};  // bits

  void work(int64_t i) {
    names |= int64_t{1} << i;
    ++begun;
    told.wait(false);
    --begun;
  }
  void stop() {
    told = true;
    told.notify_all();
  }
};

}  // namespace

TEST_CASE("threads know which they are, and are waited for") {
  Waiting waiting;
  {
    Threads threads(
        5, [&](int64_t i) { waiting.work(i); }, [&] { waiting.stop(); });
    CHECK(threads.size() == 5);
    while (waiting.begun < 5) std::this_thread::yield();
  }
  CHECK(waiting.names == 0b11111);
  CHECK(waiting.begun == 0);
  CHECK(Threads(0, {}, [] {}).size() == 0);
}

TEST_CASE("where the system has some threads only, those end, and the caller is told") {
  for (int most = 0; most < 5; ++most) {
    Waiting waiting;
    const test::ThreadLimit limit(most);
    CHECK_THROWS_AS(Threads(
                        5, [&](int64_t i) { waiting.work(i); }, [&] { waiting.stop(); }),
                    std::system_error);
    CHECK(waiting.begun == 0);
    CHECK(waiting.told);
  }
}
