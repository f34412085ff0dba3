// Rank threads: threads that do the same work side by side, each for its own rank.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>

#include "base/threads.h"

namespace plimsoll::engine {

class RankThreads {
 public:
  using Job = std::function<void(int64_t rank)>;

  /// The caller's own thread is rank 0. `abort` is called when a rank's job throws: it wakes the
  /// ranks that wait for that one.
  RankThreads(int64_t ranks, std::function<void()> abort);
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Calls job(rank) for each rank, all at once, and waits for all. Throws the first exception.
  void run(const Job& job);

 private:
  void work(int64_t rank);
  void call(int64_t rank);
  void stop();

  std::function<void()> abort_;
  std::mutex mutex_;
  std::condition_variable started_, ended_;
  const Job* job_ = nullptr;
  uint64_t round_ = 0;
  int64_t working_ = 0;
  bool stop_ = false;
  std::exception_ptr first_;
  Threads threads_;  // of ranks 1 ...; ends first
};

}  // namespace plimsoll::engine
