// A system that has no more threads: linked into a test program, it stands before pthread_create.
#pragma once

namespace plimsoll::test {

/// One at a time: of the threads that anybody begins while it lives, the first `most` begin.
class ThreadLimit {
 public:
  explicit ThreadLimit(int most);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

}  // namespace plimsoll::test
