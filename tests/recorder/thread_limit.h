// A system that has no more threads: linked into a test program, it stands before pthread_create.
#pragma once

namespace plimsoll::test {

/// Limits threads while it lives, one limit at a time: only the first `most` threads begin.
class ThreadLimit {
 public:
  explicit ThreadLimit(int most);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

}  // namespace plimsoll::test
