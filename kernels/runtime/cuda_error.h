// Errors of the CUDA runtime as errors of the program: missing memory is does_not_fit (exit 6),
// everything else means that the device is lost (exit 10).
#pragma once

#include <cuda_runtime.h>

#include "base/error.h"

namespace plimsoll::kernels {

/// Throws Error naming the call when it failed. Errors of kernels that ran earlier come back from
/// later calls, so the message says where it was seen, not where it happened.
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  if (status == cudaErrorMemoryAllocation) {
    fail(ExitCode::does_not_fit, "{}: {}: the device has no room for it", call,
         cudaGetErrorString(status));
  }
  fail(ExitCode::device_lost, "{}: {} ({}); finished lines are safe, start again to go on", call,
       cudaGetErrorString(status), cudaGetErrorName(status));
}

/// Ignores failures in destructors: the error comes back from the next call that is checked.
inline void ignore(cudaError_t) {}

}  // namespace plimsoll::kernels
