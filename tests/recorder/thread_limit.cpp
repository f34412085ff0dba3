#include "recorder/thread_limit.h"

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <limits>

namespace {

std::atomic<int> threads_left = std::numeric_limits<int>::max();

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*start)(void*), void* argument) noexcept {
  static const auto create =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (--threads_left < 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}

namespace plimsoll::test {

ThreadLimit::ThreadLimit(int most) {
  threads_left = most;
}

ThreadLimit::~ThreadLimit() {
  threads_left = std::numeric_limits<int>::max();
}

}  // namespace plimsoll::test
