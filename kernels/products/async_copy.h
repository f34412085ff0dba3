// Asynchronous copies to shared memory (cp.async).
#pragma once

#include <cuda_runtime.h>

#ifdef PLIMSOLL_EMULATION
#include <cstring>
#include <deque>
#include <utility>
#include <vector>
#endif

namespace plimsoll::kernels {

/// A thread's own copies, in groups that arrive in order. Only this thread may read the data of a
/// group, once it has waited for it.
class AsyncCopies {
 public:
  /// Starts a copy of 16 aligned bytes in the current group.
  __device__ void copy(void* shared, const void* global) {
#ifdef PLIMSOLL_EMULATION
    group_.emplace_back(shared, global);
#elif defined(__CUDA_ARCH__)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(global)
                 : "memory");
#endif
  }
  /// Ends the group, which may be empty.
  __device__ void close() {
#ifdef PLIMSOLL_EMULATION
    groups_.push_back(std::move(group_));
    group_.clear();
#elif defined(__CUDA_ARCH__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }
  /// Waits for all groups but the youngest `others`.
  template <int others>
  __device__ void wait() {
#ifdef PLIMSOLL_EMULATION
    // The copies happen here, as late as a device may complete them.
    for (; groups_.size() > others; groups_.pop_front()) {
      for (const auto& [to, from] : groups_.front()) std::memcpy(to, from, 16);
    }
#elif defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_group %0;" ::"n"(others) : "memory");
#endif
  }

#ifdef PLIMSOLL_EMULATION
 private:
  using Group = std::vector<std::pair<void*, const void*>>;
  Group group_;
  std::deque<Group> groups_;
#endif
};

}  // namespace plimsoll::kernels
