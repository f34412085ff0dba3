// Threads that decode pictures beside the engine's steps.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace plimsoll::batch {

class Workers {
 public:
  /// None: tasks run where they are given.
  explicit Workers(int threads);
  /// Waits for the tasks under way; those that have not begun are left out.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Tasks begin in the order in which they come, and must not throw.
  void add(std::function<void()> task);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll::batch
