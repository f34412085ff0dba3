#include "bench/cuda/roofs.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::testing {
namespace {

constexpr int kThreads = 512;
constexpr int kBlocks = 132 * 16;

__global__ void __launch_bounds__(kThreads)
    read_kernel(const uint4* from, size_t count, unsigned* never) {
  unsigned seen = 0;
  const size_t step = size_t{gridDim.x} * blockDim.x;
#pragma unroll 8
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const uint4 x = __ldcs(from + i);
    seen |= x.x ^ x.y ^ x.z ^ x.w;
  }
  if (seen == 0x9e3779b9u) *never = seen;  // keeps the loads
}

}  // namespace

void enqueue_read(const void* memory, size_t bytes, unsigned* never, cudaStream_t stream) {
  kernels::launch({.grid = dim3(kBlocks), .block = dim3(kThreads), .stream = stream}, "read",
                  read_kernel, static_cast<const uint4*>(memory), bytes / sizeof(uint4), never);
}

}  // namespace plimsoll::testing
