#include "backend/cpu/thread_pool.h"

#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace plimsoll::backend {
namespace {

/// Rounds of spinning before a thread sleeps: about 50 microseconds.
constexpr int kSpins = 1000;

/// Operations that one thread does in the time that handing them out takes, a few microseconds.
constexpr int64_t kWorthwhile = int64_t{1} << 17;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

/// Waits until `value` is no longer `old`.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : workers_(
          threads - 1, [this](int64_t worker) { work(static_cast<int>(worker) + 1); },
          [this] { stop(); }) {}

void ThreadPool::stop() {
  stop_.store(true);
  round_.fetch_add(1);
  round_.notify_all();
}

void ThreadPool::run_erased(int64_t tasks, int64_t operations, Call call, const void* context) {
  if (tasks <= 0) return;
  loop_ = {call, context, tasks};
  next_.store(0, std::memory_order_relaxed);
  if (workers_.size() == 0 || tasks == 1 || operations < kWorthwhile) {
    take_tasks(0);
  } else {
    open_.store(true);
    round_.fetch_add(1);
    round_.notify_all();
    take_tasks(0);
    open_.store(false);
    for (int left = working_.load(); left != 0; left = working_.load())
      wait_for_change(working_, left);
  }
  if (failed_.load(std::memory_order_acquire)) {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::work(int thread) {
  for (uint32_t seen = 0;;) {
    wait_for_change(round_, seen);
    seen = round_.load();
    if (stop_.load()) return;
    working_.fetch_add(1);
    if (open_.load()) take_tasks(thread);
    if (working_.fetch_sub(1) == 1) working_.notify_one();
  }
}

void ThreadPool::take_tasks(int thread) {
  for (int64_t task = next_.fetch_add(1, std::memory_order_relaxed); task < loop_.tasks;
       task = next_.fetch_add(1, std::memory_order_relaxed)) {
    try {
      loop_.call(loop_.context, task, thread);
    } catch (...) {
      if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
      next_.store(loop_.tasks, std::memory_order_relaxed);
    }
  }
}

}  // namespace plimsoll::backend
