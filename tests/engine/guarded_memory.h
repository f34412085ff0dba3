// Memory that only its device may touch.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>

#include "memory/host_memory.h"

namespace plimsoll::testing {

/// Memory that may be touched only while a lock is held.
class GuardedMemory final : public memory::Memory {
 public:
  explicit GuardedMemory(size_t bytes) {
    bytes_ = std::max<size_t>(bytes, 1);
    data_ = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::runtime_error("no memory for the test device");
  }
  ~GuardedMemory() override { munmap(data_, bytes_); }

  class Lock {
   public:
    explicit Lock(GuardedMemory* memory) : memory_(memory) { allow(PROT_READ | PROT_WRITE); }
    ~Lock() { allow(PROT_NONE); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    void allow(int access) {
      if (memory_ != nullptr) mprotect(memory_->data(), memory_->size(), access);
    }
    GuardedMemory* memory_;
  };
};

}  // namespace plimsoll::testing
