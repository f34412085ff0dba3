// Memory on large pages where the system gives them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace plimsoll::testing {

class LargeMemory {
 public:
  explicit LargeMemory(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
    madvise(data_, bytes, MADV_HUGEPAGE);
  }
  ~LargeMemory() { munmap(data_, bytes_); }
  LargeMemory(const LargeMemory&) = delete;
  LargeMemory& operator=(const LargeMemory&) = delete;
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace plimsoll::testing
