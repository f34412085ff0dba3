#include "batch/images/workers.h"

#include <utility>

namespace plimsoll::batch {

Workers::Workers(int threads, size_t bytes_at_once)
    : bytes_at_once_(bytes_at_once),
      threads_(
          threads, [this](int64_t) { work(); }, [this] { stop(); }) {}

void Workers::stop() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void Workers::add(std::function<void()> task, size_t bytes) {
  if (threads_.size() == 0) return task();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(task), bytes});
  }
  changed_.notify_one();
}

bool Workers::may_begin() const {
  if (tasks_.empty()) return false;
  return bytes_ == 0 || bytes_ + tasks_.front().bytes <= bytes_at_once_;
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || may_begin(); });
    if (ending_) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    bytes_ += task.bytes;
    lock.unlock();
    task.run();
    task.run = nullptr;  // frees its captures too
    lock.lock();
    bytes_ -= task.bytes;
    changed_.notify_all();
  }
}

}  // namespace plimsoll::batch
