#include "engine/ranks/crew.h"

#include <utility>

namespace plimsoll::engine {

Crew::Crew(int64_t ranks, std::function<void()> give_up)
    : give_up_(std::move(give_up)),
      threads_(
          ranks - 1, [this](int64_t thread) { work(thread + 1); }, [this] { stop(); }) {}

void Crew::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  started_.notify_all();
}

void Crew::run(const Job& job) {
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

void Crew::work(int64_t rank) {
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

// Ranks that are woken by give_up() throw after the first has been noted.
void Crew::call(int64_t rank) {
  try {
    (*job_)(rank);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (first_) return;
    first_ = std::current_exception();
    give_up_();
  }
}

}  // namespace plimsoll::engine
