// Threads that decode images beside the engine's steps.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>

#include "base/threads.h"

namespace plimsoll::batch {

class Workers {
 public:
  /// Starts `threads` threads; with none, tasks run in the thread that adds them. The destructor
  /// waits for tasks under way and drops those that have not begun.
  Workers(int threads, size_t bytes_at_once);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Adds a task, which must not throw. Tasks begin in the order in which they come, as long as
  /// those under way need no more than `bytes_at_once` together; a larger task runs alone.
  void add(std::function<void()> task, size_t bytes);

 private:
  struct Task {
    std::function<void()> run;
    size_t bytes = 0;
  };

  void work();
  void stop();
  [[nodiscard]] bool may_begin() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  size_t bytes_at_once_;
  size_t bytes_ = 0;  // of tasks under way
  bool ending_ = false;
  Threads threads_;  // ends first
};

}  // namespace plimsoll::batch
