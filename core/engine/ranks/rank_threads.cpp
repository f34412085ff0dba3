#include "engine/ranks/rank_threads.h"

#include <utility>

namespace plimsoll::engine {

RankThreads::RankThreads(int64_t ranks, std::function<void()> abort)
    : abort_(std::move(abort)),
      threads_(
          ranks - 1, [this](int64_t thread) { work(thread + 1); }, [this] { stop(); }) {}

void RankThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
}

void RankThreads::run(const Job& job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = &job;
    working_ = threads_.size();
    ++round_;
  }
  started_.notify_all();
  call(0);
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return working_ == 0; });
  if (first_) std::rethrow_exception(std::exchange(first_, nullptr));
}

void RankThreads::work(int64_t rank) {
  std::unique_lock lock(mutex_);
  for (uint64_t seen = 0;;) {
    started_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    lock.unlock();
    call(rank);
    lock.lock();
    if (--working_ == 0) ended_.notify_one();
  }
}

// Ranks that are woken by abort() throw after the first has been noted.
void RankThreads::call(int64_t rank) {
  try {
    (*job_)(rank);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (first_) return;
    first_ = std::current_exception();
    abort_();
  }
}

}  // namespace plimsoll::engine
