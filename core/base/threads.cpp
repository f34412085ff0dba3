#include "base/threads.h"

#include <utility>

namespace plimsoll {

Threads::Threads(int64_t count, const std::function<void(int64_t)>& work,
                 std::function<void()> stop)
    : stop_(std::move(stop)) {
  try {
    for (int64_t i = 0; i < count; ++i) threads_.emplace_back(work, i);
  } catch (...) {
    end();
    throw;
  }
}

Threads::~Threads() {
  end();
}

void Threads::end() {
  stop_();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace plimsoll
