// The one place where kernels are launched, and the calls that every kernel makes for its launch.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/rounding.h"

#ifdef PLIMSOLL_EMULATION
#include "emulation/emulator.h"  // kernels compiled as C++ for tests
#endif

namespace plimsoll::kernels {

/// Whether a kernel may start before the one before it in the stream has ended (programmatic
/// dependent launch, from compute capability 9.0). Such a kernel calls `wait_for_previous()` before
/// it reads what earlier kernels wrote or writes what they read.
enum class Overlap : uint8_t { no, yes };

struct Launch {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  Overlap overlap = Overlap::yes;
};

inline constexpr size_t kSharedWithoutAsking = size_t{48} << 10;
/// Shared memory that a block may have on every device for which the kernels are compiled (8.6 and
/// 8.9 have least).
inline constexpr size_t kMaxSharedBytes = size_t{99} << 10;

/// Sets whether kernels may overlap at all, and forgets what was known of them. `no` is for finding
/// faults.
void allow_overlap(Overlap overlap);

/// True when a kernel may overlap: the code that runs for it waits by itself, which code for older
/// devices does not, also where the driver compiles it for a newer one. Loads the kernel when it is
/// used for the first time.
bool can_overlap(const void* kernel);

/// Loads a kernel ahead of its first launch, so that nothing is loaded after the seal.
template <typename... Parameters>
void preload(void (*kernel)(Parameters...)) {
  (void)can_overlap(reinterpret_cast<const void*>(kernel));
}

/// Throws Error naming the kernel when the runtime refused its launch.
void check_launch(cudaError_t status, const char* name);

/// Launches kernel(arguments...) and throws Error when the runtime refuses. A launch without blocks
/// is skipped.
template <typename... Parameters, typename... Arguments>
void launch(const Launch& launch, const char* name, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (launch.grid.x == 0 || launch.grid.y == 0 || launch.grid.z == 0) return;
  const bool overlaps = can_overlap(reinterpret_cast<const void*>(kernel));
  if (launch.shared_bytes > kSharedWithoutAsking) {
    check_launch(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(launch.shared_bytes)),
                 name);
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = launch.grid;
  config.blockDim = launch.block;
  config.dynamicSmemBytes = launch.shared_bytes;
  config.stream = launch.stream;
  config.attrs = &attribute;
  config.numAttrs = launch.overlap == Overlap::yes && overlaps ? 1 : 0;
  check_launch(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...), name);
}

/// Waits until the kernels before this one have ended and their writes are visible.
__device__ inline void wait_for_previous() {
#ifdef PLIMSOLL_EMULATION
  emulation::wait_for_previous(emulation::Site::current());
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel's blocks start as soon as there is room for them. They wait by themselves
/// for what this kernel writes.
__device__ inline void start_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Shared memory of the block, `Launch::shared_bytes` long and aligned to 16 bytes.
__device__ inline unsigned char* shared_memory() {
#ifndef PLIMSOLL_EMULATION
  extern __shared__ __align__(16) unsigned char plimsoll_shared_memory[];
  return plimsoll_shared_memory;
#else
  return static_cast<unsigned char*>(emulation::shared_memory());
#endif
}

template <typename T>
__device__ T* shared_array(size_t offset_bytes = 0) {
  return reinterpret_cast<T*>(shared_memory() + offset_bytes);
}

}  // namespace plimsoll::kernels
