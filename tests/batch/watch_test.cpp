// The second thread of a run: what ends it, and what does not.
#include "batch/watch.h"

#include <catch2/catch.hpp>
#include <future>
#include <stdexcept>

using namespace plimsoll::batch;
using namespace std::chrono_literals;

namespace {

/// A watch whose leave() notes why, once, and holds its thread until the end.
class Watched {
 public:
  explicit Watched(WatchOptions options)
      : progress_(ProgressMode::none, 80, [](std::string_view) {}) {
    options.leave = [this](Cause cause, AtRest at_rest) {
      if (!left_.exchange(true)) why_.set_value({cause, at_rest});
      released_.wait();
    };
    watch_.emplace(progress_, std::move(options));
  }
  ~Watched() { release_.set_value(); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  Watch& operator*() { return *watch_; }
  Watch* operator->() { return &*watch_; }
  /// Why the watch ended the run within ten seconds.
  std::pair<Cause, AtRest> why() {
    auto told = why_.get_future();
    REQUIRE(told.wait_for(10s) == std::future_status::ready);
    return told.get();
  }
  [[nodiscard]] bool left() const { return left_; }

 private:
  Progress progress_;
  std::atomic<bool> left_{false};
  std::promise<std::pair<Cause, AtRest>> why_;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
  std::optional<Watch> watch_;  // ends first, after release_
};

using Why = std::pair<Cause, AtRest>;

}  // namespace

TEST_CASE("a step that takes too long is a stall; steps that end, and blocked outputs, are none") {
  Watched watched({.stall = 300ms});
  for (int i = 0; i < 12; ++i) {
    watched->show({});
    std::this_thread::sleep_for(50ms);
  }
  CHECK(!watched.left());
  {
    const std::lock_guard outputs(watched->outputs());
    std::this_thread::sleep_for(700ms);
    CHECK(!watched.left());
  }
  CHECK(watched.why() == Why{Cause::stall, AtRest::yes});
}

TEST_CASE("a stage without lines never stalls, and is left at once when told to stop") {
  std::atomic<bool> stop = false;
  Watched watched({.stop = &stop, .grace = 1h, .stall = 100ms});
  watched->enter("reading weights");
  std::this_thread::sleep_for(400ms);
  CHECK(!watched.left());
  stop = true;
  CHECK(watched.why() == Why{Cause::signal, AtRest::yes});
}

TEST_CASE("told to stop, a run has its grace, also when it holds its outputs for ever") {
  std::atomic<bool> stop = true;
  const auto start = Clock::now();
  Watched watched({.stop = &stop, .grace = 200ms});
  watched->show({});
  const std::lock_guard outputs(watched->outputs());
  CHECK(watched->cause() == Cause::signal);
  CHECK(watched.why() == Why{Cause::signal, AtRest::no});
  CHECK(Clock::now() - start > 200ms);
}

TEST_CASE("a deadline ends a run as a signal does") {
  Watched watched({.deadline = Clock::now() + 100ms, .grace = 0s});
  watched->show({});
  CHECK(watched.why() == Why{Cause::time_limit, AtRest::yes});
}

TEST_CASE("a status that is asked for syncs, while the run shows and holds its outputs") {
  std::atomic<bool> status = false;
  std::atomic<int> published = 0;
  int synced = 0;  // with outputs() held
  {
    Watched watched(
        {.status = &status, .publish_status = [&](const ProgressSample&) { ++published; }});
    {
      const std::lock_guard outputs(watched->outputs());
      watched->on_status([&] { ++synced; });
    }
    status = true;
    for (int i = 0; i < 200; ++i) {
      const std::lock_guard outputs(watched->outputs());
      watched->show({});
      std::this_thread::sleep_for(1ms);
      if (i == 100) status = true;
    }
    for (int i = 0; i < 1000 && status; ++i) std::this_thread::sleep_for(1ms);
  }
  CHECK(synced >= 1);
  CHECK(published >= 1);
}

TEST_CASE("what a run has written is synced before the watch ends it, if its outputs are at rest") {
  enum class Sync : uint8_t { done, held, failing };
  for (const Sync sync : {Sync::done, Sync::held, Sync::failing}) {
    INFO(static_cast<int>(sync));
    std::atomic<bool> stop = false;
    std::atomic<int> synced = 0;
    Watched watched({.stop = &stop, .grace = 0s});
    watched->show({});
    watched->on_status([&] {
      ++synced;
      if (sync == Sync::failing) throw std::runtime_error("no space");
    });
    std::unique_lock outputs(watched->outputs(), std::defer_lock);
    if (sync == Sync::held) outputs.lock();
    CHECK(synced == 0);
    stop = true;
    CHECK(watched.why() == Why{Cause::signal, sync == Sync::held ? AtRest::no : AtRest::yes});
    CHECK(synced == (sync == Sync::held ? 0 : 1));
  }
}

TEST_CASE("time for which the process stood still is no silence of the run") {
  // The thread that looks is held up, as all are when a process is stopped or a machine sleeps.
  constexpr auto kStill = 1500ms;
  std::promise<void> stood;
  std::atomic<int> published = 0;
  Watched watched({.stall = 900ms, .publish_status = [&](const ProgressSample&) {
                     if (++published != 2) return;
                     std::this_thread::sleep_for(kStill);
                     stood.set_value();
                   }});
  auto over = stood.get_future();
  while (over.wait_for(5ms) != std::future_status::ready) watched->show({});
  for (int i = 0; i < 40; ++i) {
    watched->show({});
    std::this_thread::sleep_for(5ms);
  }
  CHECK(!watched.left());
  CHECK(watched.why() == Why{Cause::stall, AtRest::yes});
}
