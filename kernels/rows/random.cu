#include "kernels/rows/random.h"

#include <algorithm>

#include "kernels/runtime/dispatch.h"
#include "kernels/runtime/launch.h"

namespace plimsoll::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 14;

/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators": its output
/// function.
__device__ inline uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    fill_kernel(T* to, int64_t count, uint64_t seed, float scale) {
  wait_for_previous();
  start_next();
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += step) {
    const uint64_t bits = mix(seed + 0x9e3779b97f4a7c15ull * (static_cast<uint64_t>(i) + 1));
    const auto number = static_cast<float>(static_cast<int32_t>(bits >> 40) - (1 << 23));
    to[i] = from_float<T>(number * (1.f / (1 << 23)) * scale);
  }
}

}  // namespace

void fill_random(void* to, DType dtype, int64_t count, uint64_t seed, float scale,
                 cudaStream_t stream) {
  with_activation_type(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t blocks = std::min(kMaxBlocks, divide_up<int64_t>(count, kThreads));
    launch({.grid = dim3(static_cast<unsigned>(blocks)), .block = dim3(kThreads), .stream = stream},
           "fill_random", fill_kernel<T>, static_cast<T*>(to), count, seed, scale);
  });
}

}  // namespace plimsoll::kernels
