// Threads that wait for parallel loops. Between the loops of one step they spin, because a wake-up
// costs more than a small loop; after that they sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "base/threads.h"

namespace plimsoll::backend {

class ThreadPool {
 public:
  /// `threads` counts the caller's own.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls f(task, thread) for each task in [0, tasks), in any order on any thread, and waits. All
  /// tasks together take about `operations` floating-point operations; few are not worth waking
  /// anybody. Not to be nested, nor called from two threads at once. The first exception of a task
  /// is rethrown here.
  template <typename F>
  void run(int64_t tasks, int64_t operations, const F& f) {
    run_erased(
        tasks, operations,
        [](const void* context, int64_t task, int thread) {
          (*static_cast<const F*>(context))(task, thread);
        },
        &f);
  }

 private:
  using Call = void (*)(const void* context, int64_t task, int thread);
  struct Loop {
    Call call = nullptr;
    const void* context = nullptr;
    int64_t tasks = 0;
  };

  void run_erased(int64_t tasks, int64_t operations, Call call, const void* context);
  void work(int thread);
  void take_tasks(int thread);
  void stop();

  // A worker announces itself in working_ and then looks whether a loop is open; the caller closes
  // the loop and then waits until working_ is 0. So nobody waits for a worker that has not woken
  // up, and loop_ is written only while no worker can read it.
  Loop loop_;
  alignas(64) std::atomic<int64_t> next_{0};    // next task of the loop
  alignas(64) std::atomic<uint32_t> round_{0};  // counts loops
  std::atomic<bool> open_{false};
  alignas(64) std::atomic<int> working_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // of the task that set failed_
  Threads workers_;           // ends first
};

}  // namespace plimsoll::backend
