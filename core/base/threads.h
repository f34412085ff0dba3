// A group of threads that ends as a whole, also where the system has only some of them.
#pragma once

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace plimsoll {

class Threads {
 public:
  /// Starts `count` threads, each of which calls work(i), i from 0; `stop` makes all of them return
  /// soon. Throws std::system_error where the system has no more threads; those that had begun have
  /// ended then.
  Threads(int64_t count, const std::function<void(int64_t)>& work, std::function<void()> stop);
  /// Calls `stop` and waits. As a member, the object stands after all that the threads use.
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  [[nodiscard]] int64_t size() const { return std::ssize(threads_); }

 private:
  void end();

  std::function<void()> stop_;
  std::vector<std::thread> threads_;
};

}  // namespace plimsoll
