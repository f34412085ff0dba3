// Copies to shared memory by the device's copy engine (cp.async.bulk), in code for 9.0 and newer:
// one thread starts the copy of a whole range, and others wait for it at a barrier in shared
// memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#ifdef PLIMSOLL_EMULATION
#include <cstring>
#include <stdexcept>
#endif

namespace plimsoll::kernels {

/// Capability from which on code has these copies; in older code a kernel that uses one traps.
inline constexpr int kBulkCopies = 90;

/// A barrier at which threads wait for a number of bytes, turn after turn. It lies in shared
/// memory, without constructor.
class CopyBarrier {
 public:
  /// Initialises the barrier, by one thread; after all of them fence() is called, and then a
  /// barrier of the threads that wait.
  __device__ void init() {
#ifdef PLIMSOLL_EMULATION
    turn_ = count_ = expected_ = 0;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address(&word_)) : "memory");
#endif
  }
  /// Orders the thread's accesses to shared memory before copies that are started later: barriers
  /// are initialised, places have been read.
  __device__ static void fence() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  }
  /// Begins a turn of `bytes`, before its copies are started. All threads have read the data of the
  /// turn before.
  __device__ void expect([[maybe_unused]] uint32_t bytes) {
#ifdef PLIMSOLL_EMULATION
    if (expected_ != 0) throw std::logic_error("a turn of copies begins before the last has ended");
    expected_ = bytes;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(&word_)),
                 "r"(bytes)
                 : "memory");
#elif defined(__CUDA_ARCH__)
    __trap();
#endif
  }
  /// Starts a copy of the turn: both places and `bytes` are multiples of 16.
  __device__ void copy([[maybe_unused]] void* shared, [[maybe_unused]] const void* global,
                       [[maybe_unused]] uint32_t bytes) {
#ifdef PLIMSOLL_EMULATION
    const auto places = reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global);
    if (((places | bytes) & 15) != 0 || count_ == kMost)
      throw std::logic_error("a bulk copy that no device makes");
    copies_[count_++] = {shared, global, bytes};
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(address(shared)),
        "l"(global), "r"(bytes), "r"(address(&word_))
        : "memory");
#endif
  }
  /// Waits for the end of turn number `turn`, 0 being the first: the current one, or the one before
  /// it.
  __device__ void wait([[maybe_unused]] uint32_t turn) {
#ifdef PLIMSOLL_EMULATION
    if ((turn_ & 1) == (turn & 1)) bring();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint32_t ended = 0;
    while (ended == 0) {
      asm volatile(
          "{\n.reg .pred p;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
          "selp.u32 %0, 1, 0, p;\n}"
          : "=r"(ended)
          : "r"(address(&word_)), "r"(turn & 1)
          : "memory");
    }
#endif
  }

 private:
#ifdef PLIMSOLL_EMULATION
  /// Completes copies as late as a device may.
  void bring() {
    for (uint32_t i = 0; i < count_; expected_ -= copies_[i++].bytes) {
      if (copies_[i].bytes > expected_) throw std::logic_error("more was copied than expected");
      std::memcpy(copies_[i].to, copies_[i].from, copies_[i].bytes);
    }
    if (count_ == 0 || expected_ != 0)
      throw std::logic_error("copies are waited for that nobody asked for");
    count_ = 0;
    ++turn_;
  }
  static constexpr uint32_t kMost = 4;
  struct Copy {
    void* to;
    const void* from;
    uint32_t bytes;
  };
  uint32_t turn_, count_, expected_;
  Copy copies_[kMost];
#else
  __device__ static unsigned address(const void* shared) {
    return static_cast<unsigned>(__cvta_generic_to_shared(shared));
  }
  uint64_t word_;
#endif
};

}  // namespace plimsoll::kernels
